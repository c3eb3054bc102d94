/// Calls of operators that a mode carries out (Note [Dispatch] in dispatch.cpp).
#pragma once

namespace weft::python {

/// Installs the door's hook.
void init_dispatch();

}  // namespace weft::python
