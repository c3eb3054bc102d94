/// The extension module `weft._C`.
#include "base/lock.h"
#include "base/parallel.h"
#include "deferred/batcher.h"
#include "kernels/matmul.h"
#include "kernels/simd.h"
#include "ops/pointwise.h"
#include "python/dispatch.h"
#include "python/each.h"
#include "python/overrides.h"
#include "python/sparse.h"
#include "tensor/format.h"

namespace weft::python {
namespace {

PyObject* py_memory_stats(PyObject*, PyObject*) {
    MemoryStats s = memory_stats();
    return Py_BuildValue("{sLsLsLsL}", "current", static_cast<long long>(s.current), "peak",
                         static_cast<long long>(s.peak), "cached", static_cast<long long>(s.cached),
                         "allocations", static_cast<long long>(s.allocations));
}
PyObject* py_reset_peak(PyObject*, PyObject*) {
    reset_peak_memory();
    Py_RETURN_NONE;
}
PyObject* py_empty_cache(PyObject*, PyObject*) {
    empty_memory_cache();
    Py_RETURN_NONE;
}
PyObject* py_fail_allocation(PyObject*, PyObject* n) {
    return guarded([&] {
        fail_allocation(to_int(n, "_fail_allocation"));
        return Py_NewRef(Py_None);
    });
}
PyObject* py_set_threads(PyObject*, PyObject* n) {
    return guarded([&] {
        WEFT_EXPECT(PyLong_Check(n), Runtime, "set_num_threads", "an int", Py_TYPE(n)->tp_name);
        int64_t count = to_int(n, "set_num_threads");
        WEFT_EXPECT(count > 0, Runtime, "set_num_threads", "threads",
                    text(count, " (set_num_threads expects a positive integer)"));
        set_num_threads(static_cast<int>(std::min<int64_t>(count, max_threads)));
        return Py_NewRef(Py_None);
    });
}
PyObject* py_get_threads(PyObject*, PyObject*) { return PyLong_FromLong(get_num_threads()); }
PyObject* py_cpu_level(PyObject*, PyObject*) {
    return PyUnicode_FromString(kernels::cpu_level_name());
}
PyObject* py_set_blas(PyObject*, PyObject* path) {
    return guarded([&] {
        static std::string kept;
        kept = to_text(path);
        kernels::set_blas_path(kept.c_str());
        return Py_NewRef(Py_None);
    });
}
PyObject* py_get_default_dtype(PyObject*, PyObject*) {
    return Py_NewRef(dtype_object(ops::default_dtype));
}
PyObject* py_set_default_dtype(PyObject*, PyObject* o) {
    return guarded([&] {
        DType t;
        WEFT_EXPECT(to_dtype(o, t) && is_floating(t), Type, "set_default_dtype", "another dtype",
                    text(Py_TYPE(o)->tp_name, to_dtype(o, t) ? " (" : " (invalid dtype object: ",
                         "only floating-point types are supported as the default type)"));
        WEFT_EXPECT(!is_float8(t), Type, "set_default_dtype", "a dtype that ops compute in",
                    text(name(t), " (couldn't find storage object ", scalar_name(t), "Storage)"));
        deferred::Batcher::current().note_dtype();
        ops::default_dtype = t;
        return Py_NewRef(Py_None);
    });
}
/// _print_options(precision, threshold, edgeitems, linewidth, sci_mode, summary): None keeps one.
PyObject* py_print_options(PyObject*, PyObject* args) {
    PyObject* o[6];
    if (!PyArg_ParseTuple(args, "OOOOOO", &o[0], &o[1], &o[2], &o[3], &o[4], &o[5])) return nullptr;
    return guarded([&] {
        FormatOptions f = format_options();
        if (o[0] != Py_None) f.precision = static_cast<int>(to_int(o[0], "set_printoptions"));
        if (o[1] != Py_None) f.threshold = to_int(o[1], "set_printoptions");
        if (o[2] != Py_None) f.edgeitems = to_int(o[2], "set_printoptions");
        if (o[3] != Py_None) f.linewidth = to_int(o[3], "set_printoptions");
        if (o[4] != Py_None) f.sci_mode = static_cast<int>(to_int(o[4], "set_printoptions"));
        if (o[5] != Py_None) f.summary = checked(PyObject_IsTrue(o[5])) != 0;
        format_options() = f;
        return Py_BuildValue("iLLLiO", f.precision, static_cast<long long>(f.threshold),
                             static_cast<long long>(f.edgeitems),
                             static_cast<long long>(f.linewidth), f.sci_mode,
                             f.summary ? Py_True : Py_False);
    });
}

constexpr const char* kBatchNames[] = {"none", "rows", "join", "alias", "layout", "body"};
static_assert(std::size(kBatchNames) == static_cast<size_t>(Batch::Body) + 1);

constexpr const char* kCastNames[] = {"none", "narrow", "float", "within", "widest"};
static_assert(std::size(kCastNames) == static_cast<size_t>(Cast::Widest) + 1);

bool reads_memory(const Op& op) {
    bool any = false;
    for (int i = 0; i < op.inputs; ++i) any |= op.reads.has(i);
    return any;
}

/// The table, for docs, tests and ONNX: a dict per record that is called today.
PyObject* py_records(PyObject*, PyObject*) {
    return guarded([] {
        Object out = Object::take(PyList_New(0));
        for (const Op& op : table().all()) {
            if (op.until) continue;
            Object samples = Object::take(PyList_New(0));
            for (auto& s : op.samples) checked(PyList_Append(samples.get(), py_str(s).get()));
            Object aliases = Object::take(PyList_New(0));
            for (auto& s : op.aliases) checked(PyList_Append(aliases.get(), py_str(s).get()));
            Object names = Object::take(PyDict_New());
            for (const Param& p : op.params)
                for (auto& s : p.aliases)
                    checked(PyDict_SetItem(names.get(), py_str(s).get(), py_str(p.name).get()));
            std::string_view file = op.where.file_name();
            if (size_t at = file.rfind("src/"); at != file.npos) file.remove_prefix(at);
            Object record = Object::take(Py_BuildValue(
                "{ss ss ss ss ss# si sN sN sN sN sN sN sN sN sN sN ss ss sO sO sO sN ss si sN ss "
                "ss}",
                "name", op.name.c_str(), "public_name", op.public_name.c_str(), "schema",
                op.schema.c_str(), "doc", op.doc.c_str(), "file", file.data(),
                static_cast<Py_ssize_t>(file.size()), "line", static_cast<int>(op.where.line()),
                "differentiable", PyBool_FromLong(op.differentiable()), "composite",
                PyBool_FromLong(op.body != nullptr), "view", PyBool_FromLong(op.view), "inplace",
                PyBool_FromLong(op.inplace), "function", PyBool_FromLong(op.function), "method",
                PyBool_FromLong(op.method && op.inputs > 0), "out_form",
                PyBool_FromLong(op.out_form), "random", PyBool_FromLong(op.random), "reads",
                PyBool_FromLong(reads_memory(op)), "pointwise", PyBool_FromLong(op.pointwise),
                "batch", kBatchNames[static_cast<size_t>(op.batch)], "autocast",
                kCastNames[static_cast<size_t>(op.autocast)], "samples", samples.get(), "aliases",
                aliases.get(), "parameter_aliases", names.get(), "number_self",
                PyBool_FromLong(op.number_self), "node_name", op.node_name.c_str(), "version",
                op.version, "in_packages", PyBool_FromLong(op.called_by_packages()), "onnx",
                op.onnx.c_str(), "no_onnx", op.no_onnx.c_str()));
            checked(PyList_Append(out.get(), record.get()));
        }
        return out.release();
    });
}

PyMethodDef module_functions[] = {{"_memory_stats", py_memory_stats, METH_NOARGS, nullptr},
                                  {"_reset_peak_memory", py_reset_peak, METH_NOARGS, nullptr},
                                  {"_empty_cache", py_empty_cache, METH_NOARGS, nullptr},
                                  {"_fail_allocation", py_fail_allocation, METH_O, nullptr},
                                  {"set_num_threads", py_set_threads, METH_O,
                                   "Threads that one op may use.\n"
                                   "\n"
                                   "RuntimeError for a number below 1.\n"
                                   "\n"
                                   ">>> n = weft.get_num_threads()\n"
                                   ">>> weft.set_num_threads(1)\n"
                                   ">>> weft.get_num_threads()\n"
                                   "1\n"
                                   ">>> weft.set_num_threads(n)"},
                                  {"get_num_threads", py_get_threads, METH_NOARGS,
                                   "Threads that one op may use.\n"
                                   "\n"
                                   ">>> weft.get_num_threads() >= 1\n"
                                   "True"},
                                  {"_cpu_level", py_cpu_level, METH_NOARGS, nullptr},
                                  {"_set_blas_path", py_set_blas, METH_O, nullptr},
                                  {"get_default_dtype", py_get_default_dtype, METH_NOARGS,
                                   "The dtype of new floating tensors.\n"
                                   "\n"
                                   ">>> weft.get_default_dtype()\n"
                                   "torch.float32"},
                                  {"set_default_dtype", py_set_default_dtype, METH_O,
                                   "Sets the dtype of new floating tensors.\n"
                                   "\n"
                                   "TypeError for one that is not floating.\n"
                                   "\n"
                                   ">>> weft.set_default_dtype(weft.float64)\n"
                                   ">>> weft.ones(2).dtype\n"
                                   "torch.float64\n"
                                   ">>> weft.set_default_dtype(weft.float32)"},
                                  {"_print_options", py_print_options, METH_VARARGS, nullptr},
                                  {"_records", py_records, METH_NOARGS, nullptr},
                                  {}};

PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                          "weft._C",
                          "weft's core.",
                          -1,
                          module_functions,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr};

}  // namespace

}  // namespace weft::python

PyMODINIT_FUNC PyInit__C() {
    using namespace weft::python;
    PyObject* module = PyModule_Create(&definition);
    if (!module) return nullptr;
    return guarded([&] {
        weft::lock_hooks = {
            []() -> void* { return PyEval_SaveThread(); },
            [](void* state) {
                into_python([&] { PyEval_RestoreThread(static_cast<PyThreadState*>(state)); });
            }};
        weft::ops::hooks.warn = [](const std::string& message) {
            checked(warn_user(message.c_str()));
        };
        init_types(module);
        init_convert(module);
        init_overrides(module);
        init_tensor_type(module);
        init_dispatch(module);
        init_calls(module);
        init_checked(module);
        init_autograd(module);
        init_site(module);
        init_frames(module);
        init_optim(module);
        init_saved_hooks(module);
        init_anomaly(module);
        init_module_slots(module);
        init_function(module);
        init_random(module);
        init_dlpack(module);
        init_storage(module);
        init_deferred(module);
        init_mapped(module);
        init_segments(module);
        init_recorder(module);
        init_programs(module);
        init_guards(module);
        init_fibers(module);
        init_watch(module);
        init_spans(module);
        init_alive(module);
        init_locals(module);
        init_statistics(module);
        init_sparse(module);
        init_each(module);
        return module;
    });
}
