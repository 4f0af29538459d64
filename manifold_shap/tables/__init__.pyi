from .base import RowAdapter as RowAdapter
from .encoding import Encoding as Encoding
from .inputs import Inputs as Inputs
from .texts import Texts as Texts
