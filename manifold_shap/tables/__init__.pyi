from .encoding import Encoding as Encoding
