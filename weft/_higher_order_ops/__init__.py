"""Where PyTorch keeps the functions that take functions."""

from weft._higher_order_ops.associative_scan import associative_scan as associative_scan
from weft._higher_order_ops.cond import cond as cond
from weft._higher_order_ops.while_loop import while_loop as while_loop
