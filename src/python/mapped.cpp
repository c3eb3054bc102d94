/// Mapping over examples for Python: what weft/func calls.
#include "mapped/level.h"

#include <unordered_set>

#include "autograd/accumulate.h"
#include "autograd/taken.h"
#include "ops/functions.h"
#include "python/hooks.h"

namespace weft::python {
namespace {

constexpr const char* kLevel = "weft.level";

mapped::Level& level_in(PyObject* handle) {
    auto* level = static_cast<mapped::Level*>(PyCapsule_GetPointer(handle, kLevel));
    if (!level) throw PythonError{};
    return *level;
}

Object handle_of(mapped::Level& level) {
    Object handle = Object::take(PyCapsule_New(&level, kLevel, [](PyObject* capsule) {
        Ref<mapped::Level>::adopt(
            static_cast<mapped::Level*>(PyCapsule_GetPointer(capsule, kLevel)));
    }));
    ++level.refs;  // the capsule's
    return handle;
}

/// _map_begin(size, draws): what runs is a function of `size` examples from now on, until _map_end; draws
/// is 0 if it may not draw random numbers, 1 if each example draws its own, 2 if all draw the same.
PyObject* begin(PyObject*, PyObject* args) {
    long long size;
    int draws;
    if (!PyArg_ParseTuple(args, "Li", &size, &draws)) return nullptr;
    return guarded([&] {
        Ref<mapped::Level> level(new mapped::Level(size, static_cast<mapped::Draws>(draws)));
        Object handle = handle_of(*level);
        level->enter();
        return handle.release();
    });
}

/// _map_end(level): whether it is alone, and the other examples are to be run.
PyObject* end(PyObject*, PyObject* handle) {
    return guarded([&] {
        mapped::Level& level = level_in(handle);
        level.leave();
        return PyBool_FromLong(level.alone);
    });
}

/// _map_over(level, tensor, dim): what stands for the tensor's parts along `dim`, one an example.
PyObject* mapped_over(PyObject*, PyObject* args) {
    PyObject *handle, *tensor;
    long long dim;
    if (!PyArg_ParseTuple(args, "OO!L", &handle, &tensor_type, &tensor, &dim)) return nullptr;
    return guarded([&] {
        static const ops::Function movedim{"movedim"};
        mapped::Level& level = level_in(handle);
        mapped::Scope outside(level.outer.get());
        Tensor whole = operand(tensor);
        if (dim) whole = movedim(whole, Dims{dim}, Dims{0});
        return wrap(mapped::map_over(level, whole));
    });
}

/// _map_whole(level, tensor): all examples' values along dim 0, in memory of their own; None if it is
/// one value for all.
PyObject* whole(PyObject*, PyObject* args) {
    PyObject *handle, *tensor;
    if (!PyArg_ParseTuple(args, "OO!", &handle, &tensor_type, &tensor)) return nullptr;
    return guarded([&]() -> PyObject* {
        static const ops::Function contiguous_copy{"_contiguous_copy"};
        mapped::Level& level = level_in(handle);
        mapped::Scope outside(level.outer.get());
        Tensor t = python::handle(tensor);
        if (!mapped::is_mapped_on(level, t)) return Py_NewRef(Py_None);
        Tensor all = mapped::whole_of(level, t);
        const Tensor& bottom = mapped::bottom_of(all);
        const bool own = bottom.has(kPending) || bottom.storage()->maker >= level.number;
        return wrap(own && bottom.contiguous() ? all : contiguous_copy(all));
    });
}

/// _map_fresh(tensor): the value of each example as an input of a graph of its own; None if what runs
/// is no function of several examples.
PyObject* fresh(PyObject*, PyObject* tensor) {
    return guarded([&]() -> PyObject* {
        mapped::Level* level = mapped::Level::current();
        if (!level || level->alone) return Py_NewRef(Py_None);
        return wrap(mapped::fresh_input(*level, operand(tensor)));
    });
}

/// _map_wholes(tensors): a level and what each tensor holds for its examples along dim 0, None if it is
/// the same for all; of the innermost level that one is mapped on, None if none is.
PyObject* wholes(PyObject*, PyObject* tensors) {
    return guarded([&]() -> PyObject* {
        Object all = Object::take(PySequence_Tuple(tensors));
        mapped::Level* level = nullptr;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(all.get()); ++i) {
            Tensor t = operand(PyTuple_GET_ITEM(all.get(), i));
            if (!mapped::is_mapped(t)) continue;
            mapped::Level* of = mapped::mapped(t).level.get();
            if (of->alone || of->over) return Py_NewRef(Py_None);
            if (!level || of->number > level->number) level = of;
        }
        if (!level) return Py_NewRef(Py_None);
        std::vector<Tensor> out;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(all.get()); ++i) {
            Tensor t = handle(PyTuple_GET_ITEM(all.get(), i));
            const bool on = mapped::is_mapped_on(*level, t);
            out.push_back(on ? mapped::whole_of(*level, t) : Tensor());
        }
        return Py_BuildValue("(NN)", handle_of(*level).release(), tuple_of(out).release());
    });
}

/// _reaches_past(outputs, inputs): whether the outputs' graph has leaves, or goes on, beyond inputs.
PyObject* reaches_past(PyObject*, PyObject* args) {
    PyObject *outputs, *inputs;
    if (!PyArg_ParseTuple(args, "O!O!", &PyList_Type, &outputs, &PyList_Type, &inputs))
        return nullptr;
    return guarded([&] {
        std::unordered_set<const Node*> seen;
        std::vector<Ref<Node>> todo;
        auto graph_of = [](PyObject* o) {
            Tensor t = mapped::bottom_of(handle(o));
            if (t.has(kPending)) ops::settle(t);
            return t;
        };
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(inputs); ++i) {
            Tensor t = graph_of(PyList_GET_ITEM(inputs, i));
            auto part = part_of(t);
            Edge edge = part ? part->whole : gradient_edge(t);
            if (edge && edge.node->edge_count()) return Py_NewRef(Py_True);
            if (edge) seen.insert(edge.node.get());
        }
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(outputs); ++i)
            if (Edge edge = gradient_edge(graph_of(PyList_GET_ITEM(outputs, i))))
                todo.push_back(edge.node);
        while (!todo.empty()) {
            Ref<Node> node = std::move(todo.back());
            todo.pop_back();
            if (!seen.insert(node.get()).second) continue;
            if (dynamic_cast<const AccumulateGrad*>(node.get())) return Py_NewRef(Py_True);
            for (int i = 0; i < node->edge_count(); ++i)
                if (node->edge(i)) todo.push_back(node->edge(i).node);
        }
        return Py_NewRef(Py_False);
    });
}

PyMethodDef mapped_functions[] = {{"_map_begin", begin, METH_VARARGS, nullptr},
                                  {"_map_end", end, METH_O, nullptr},
                                  {"_map_over", mapped_over, METH_VARARGS, nullptr},
                                  {"_map_whole", whole, METH_VARARGS, nullptr},
                                  {"_map_fresh", fresh, METH_O, nullptr},
                                  {"_map_wholes", wholes, METH_O, nullptr},
                                  {"_reaches_past", reaches_past, METH_VARARGS, nullptr},
                                  {}};

}  // namespace

void init_mapped(PyObject* module) {
    mapped::install();
    checked(PyModule_AddFunctions(module, mapped_functions));
}

}  // namespace weft::python
