"""Compiled functions and Modules: `weft.compile`, its switches, and what became of a function."""

from weft.compiler.api import allow_in_graph as allow_in_graph
from weft.compiler.api import assume_constant_result as assume_constant_result
from weft.compiler.api import compile as compile
from weft.compiler.api import cudagraph_mark_step_begin as cudagraph_mark_step_begin
from weft.compiler.api import disable as disable
from weft.compiler.api import is_compiling as is_compiling
from weft.compiler.api import is_dynamo_compiling as is_dynamo_compiling
from weft.compiler.api import is_exporting as is_exporting
from weft.compiler.api import list_backends as list_backends
from weft.compiler.api import reset as reset
from weft.compiler.api import set_stance as set_stance
from weft.compiler.api import substitute_in_graph as substitute_in_graph
from weft.compiler.errors import BackendCompilerFailed as BackendCompilerFailed
from weft.compiler.errors import CompilerError as CompilerError
from weft.compiler.errors import InvalidBackend as InvalidBackend
from weft.compiler.errors import Unsupported as Unsupported
from weft.compiler.report import Explanation as Explanation
from weft.compiler.report import Reached as Reached
from weft.compiler.report import explain as explain

__all__ = [
    "BackendCompilerFailed", "CompilerError", "Explanation", "InvalidBackend", "Reached",
    "Unsupported", "allow_in_graph", "assume_constant_result", "compile",
    "cudagraph_mark_step_begin", "disable", "explain", "is_compiling", "is_dynamo_compiling",
    "is_exporting", "list_backends", "reset", "set_stance", "substitute_in_graph",
]  # fmt: skip
