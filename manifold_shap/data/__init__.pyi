# The names of the sources: type checkers read them here, and so does `__init__.py`.
from .base import Table as Table
from .base import TensorDataModule as TensorDataModule
from .images import MNIST as MNIST
from .images import DigitComponents as DigitComponents
from .images import Digits as Digits
from .images import FashionMNIST as FashionMNIST
from .mixture import Mixture as Mixture
from .mixture import MixtureLaw as MixtureLaw
from .reading import ReadTable as ReadTable
from .reading import TableReader as TableReader
from .table_file import TableFile as TableFile
from .tables import Abalone as Abalone
from .tables import Bike as Bike
from .tables import Census as Census
from .tables import Diabetes as Diabetes
from .tables import Drug as Drug
from .tables import Iris as Iris
