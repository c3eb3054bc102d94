"""What compiling raises, by PyTorch's names."""

from weft.compiler.errors import CompilerError as TorchDynamoException
from weft.compiler.errors import InvalidBackend as InvalidBackend
from weft.compiler.errors import Unsupported as Unsupported
from weft.compiler.errors import UserError as UserError
from weft.compiler.errors import UserErrorType as UserErrorType

__all__ = ["InvalidBackend", "TorchDynamoException", "Unsupported", "UserError", "UserErrorType"]
