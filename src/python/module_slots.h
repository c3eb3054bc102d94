/// The slots of nn.Module in C (Note [Module slots]), for who has to know whether a class still has them.
#pragma once
#include "python/object.h"

namespace weft::python {

/// Functions of nn.Module, owned; null until the class is there.
struct ModuleWays {
    PyObject *getattr, *call, *call_with_hooks;
};
extern ModuleWays module_ways;

}  // namespace weft::python
