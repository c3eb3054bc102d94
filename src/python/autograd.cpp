/// backward, grad, hooks on tensors and the modes, for weft/autograd.
#include "autograd/accumulate.h"
#include "autograd/autocast.h"
#include "autograd/engine.h"
#include "autograd/op_node.h"
#include "autograd/taken.h"
#include "deferred/batcher.h"
#include "deferred/turn.h"
#include "ops/functions.h"
#include "ops/scopes.h"
#include "ops/write.h"
#include "python/alive.h"
#include "python/hooks.h"
#include "python/recorder.h"
#include "python/type.h"

namespace weft::python {
namespace {

Object fast(PyObject* sequence, const char* what) {
    return Object::take(PySequence_Fast(sequence, what));
}

/// A GradientEdge of weft/autograd/graph.py: (node, output number).
bool is_edge(PyObject* o) { return PyTuple_Check(o) && PyTuple_GET_SIZE(o) == 2; }

Edge edge_of(PyObject* o, const char* who, bool root) {
    if (is_edge(o)) {
        Ref<Node> node = unwrap_node(PyTuple_GET_ITEM(o, 0), who);
        int64_t k = to_int(PyTuple_GET_ITEM(o, 1), who);
        WEFT_EXPECT(k >= 0 && k < node->output_count(), Index, who,
                    text("one of ", node->output_count(), " outputs"), std::to_string(k));
        return {std::move(node), static_cast<uint32_t>(k)};
    }
    Tensor t = expect_tensor(o, who);
    Edge e = gradient_edge(t);
    if (e) return e;
    // A view made under no_grad of what requires grad does so too, but nothing leads to it.
    if (!root && requires_grad(t)) return {};
    if (root)
        throw Error(
            ErrorKind::Runtime,
            "[backward] expected a tensor that requires grad, got one that does not (element "
            "0 of tensors does not require grad and does not have a grad_fn)");
    fail(ErrorKind::Runtime, who,
         "inputs that require grad (One of the differentiated Tensors does not "
         "require grad)",
         "one that does not");
}

/// Whether a graph lies on the meta device: its leaves do. No node knows its device by itself, and
/// every edge leads to a leaf, so the first ones are enough.
bool leads_to_meta(const Node* node) {
    while (node) {
        if (const auto* end = dynamic_cast<const AccumulateGrad*>(node))
            return end->variable().defined() && end->variable().on_meta();
        const Node* next = nullptr;
        for (int i = 0; i < node->edge_count() && !next; ++i) next = node->edge(i).node.get();
        node = next;
    }
    return false;
}

const char* device_name(bool on_meta) { return on_meta ? "meta" : "cpu"; }

/// The gradient to start from, of output number `index`: the given one, or one for a scalar, on
/// its device; of a class, where `root` is.
Tensor start_of(DType dtype, DimSpan shape, bool on_meta, PyObject* given, Py_ssize_t index,
                const Tensor* root = nullptr) {
    if (given == Py_None) {
        WEFT_EXPECT(
            count_elements("backward", shape) == 1, Runtime, "backward",
            "a scalar, or a gradient for each output (grad can be implicitly created only for "
            "scalar outputs)",
            text("shape ", to_string(shape)), "call .sum() first or pass gradient=");
        WEFT_EXPECT(!is_complex(dtype), Runtime, "backward",
                    "a real scalar, or a gradient for each output (grad can be implicitly created "
                    "only for real scalar outputs)",
                    name(dtype), "call .abs() or .real first or pass gradient=");
        if (root && root->has(kDispatching)) {
            static const ops::Function of_class{"ones_like"};
            return of_class(*root);
        }
        Tensor like = Tensor::layout(dtype, shape);
        on_meta ? like.allocate_meta() : like.allocate();
        return ops::full_like(like, 1);
    }
    const bool mapped = is_tensor(given) && mapped::is_mapped(handle(given));
    Tensor g = mapped ? handle(given) : expect_tensor(given, "backward");
    WEFT_EXPECT(equal(g.shape(), shape), Runtime, "backward", "a gradient that fits",
                text("another (Mismatch in shape: grad_output[", index,
                     "] has a shape of torch.Size(", to_string(g.shape()), ") and output[", index,
                     "] has a shape of torch.Size(", to_string(shape), ").)"));
    WEFT_EXPECT(is_inexact(g.dtype()), Runtime, "backward", "a floating gradient", name(g.dtype()));
    WEFT_EXPECT(is_complex(g.dtype()) == is_complex(dtype), Runtime, "backward",
                text("a ", is_complex(dtype) ? "complex" : "real",
                     " gradient (For complex Tensors, both grad_output and output are required to "
                     "have the same dtype)"),
                name(g.dtype()));
    WEFT_EXPECT(g.on_meta() == on_meta, Runtime, "backward",
                text("a gradient on ", device_name(on_meta)),
                text("one on another device (Function ", index,
                     " returned an invalid gradient: "
                     "expected device ",
                     device_name(on_meta), " but got ", device_name(!on_meta), ")"));
    return g;
}

/// Once in a program, as PyTorch does.
void warn_of_cycle() {
    static bool told = false;
    if (std::exchange(told, true)) return;
    ops::hooks.warn(
        "[backward] expected autograd.grad where the graph of gradients is wanted, got "
        "create_graph=True (Using backward() with create_graph=True will create a reference cycle "
        "between the parameter and its gradient which can cause a memory leak). Hint: set .grad "
        "to None when it is used no more");
}

/// Says what to do where examples that ran together are differentiated one by one.
std::vector<Tensor> backward_once(const std::vector<Edge>& roots, std::vector<Tensor> starts,
                                  const std::vector<Edge>& targets,
                                  const BackwardOptions& options) {
    try {
        return backward(roots, std::move(starts), targets, options);
    } catch (const Error& e) {
        bool again =
            std::string_view(e.what()).starts_with("Trying to backward through the graph a");
        if (!again || deferred::Batcher::current().tape.kinds().kinds.empty()) throw;
        throw Error(
            e, "\n  Hint: the results of weft.autobatch share nodes: call backward once, as in "
               "sum(losses).backward()");
    }
}

PyObject* py_backward(PyObject*, PyObject* const* args, Py_ssize_t n);

Tensor item(const Object& sequence, Py_ssize_t i) {
    return handle(PySequence_Fast_GET_ITEM(sequence.get(), i));
}

/// The innermost level that some of the tensors are mapped on; null: none is, or values are read.
mapped::Level* level_of(const Object& tensors) {
    mapped::Level* level = nullptr;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(tensors.get()); ++i) {
        PyObject* t = PySequence_Fast_GET_ITEM(tensors.get(), i);
        if (!is_tensor(t) || !mapped::is_mapped(handle(t))) continue;
        mapped::Level* of = mapped::mapped(handle(t)).level.get();
        if (of->alone || of->over) return nullptr;
        if (!level || of->number > level->number) level = of;
    }
    return level;
}

/// The gradient of a value of each example is a row of that of what holds all values. Null if it must be
/// found for the first example alone.
PyObject* backward_of_wholes(mapped::Level& level, const Object& roots, const Object& gradients,
                             PyObject* const* args) {
    const Object inputs = args[4] == Py_None ? Object() : fast(args[4], "inputs");
    bool fits = inputs && args[6] != Py_True;
    for (Py_ssize_t i = 0; fits && i < PySequence_Fast_GET_SIZE(inputs.get()); ++i) {
        PyObject* t = PySequence_Fast_GET_ITEM(inputs.get(), i);
        fits = is_tensor(t) && mapped::is_mapped_on(level, handle(t));
    }
    std::vector<Tensor> wholes, starts, targets;
    const Py_ssize_t count = PySequence_Fast_GET_SIZE(roots.get());
    for (Py_ssize_t i = 0; fits && i < count; ++i)
        fits = is_tensor(PySequence_Fast_GET_ITEM(roots.get(), i));
    if (!fits) {
        level.go_alone();
        return nullptr;
    }
    mapped::Scope outside(level.outer.get());
    for (Py_ssize_t i = 0; i < count; ++i) {
        Tensor root = item(roots, i);
        PyObject* given = PySequence_Fast_GET_ITEM(gradients.get(), i);
        wholes.push_back(mapped::whole_of(level, root));
        starts.push_back(mapped::whole_of(
            level, start_of(root.dtype(), root.shape(), root.on_meta(), given, i)));
    }
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(inputs.get()); ++i)
        targets.push_back(mapped::whole_of(level, item(inputs, i)));
    Object in[] = {tuple_of(wholes), tuple_of(starts), tuple_of(targets)};
    PyObject* again[] = {in[0].get(), in[1].get(), args[2], args[3], in[2].get(), args[5], args[6]};
    Object found = Object::take(py_backward(nullptr, again, 7));
    std::vector<Tensor> out;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(found.get()); ++i) {
        PyObject* g = PyTuple_GET_ITEM(found.get(), i);
        out.push_back(g == Py_None ? Tensor() : mapped::map_over(level, handle(g)));
    }
    return tuple_of(out).release();
}

/// Where a pass begins: the nodes of `tensors` and what it takes there.
struct Starts {
    void add(const Object& tensors, const Object& given) {
        const Py_ssize_t count = PySequence_Fast_GET_SIZE(tensors.get());
        for (Py_ssize_t i = 0; i < count; ++i) {
            PyObject* t = PySequence_Fast_GET_ITEM(tensors.get(), i);
            roots.push_back(edge_of(t, "backward", true));
            PyObject* start = PySequence_Fast_GET_ITEM(given.get(), i);
            if (is_edge(t)) {
                const ResultInfo& made =
                    roots.back().node->result(static_cast<int>(roots.back().output));
                const bool on_meta = leads_to_meta(roots.back().node.get());
                gradients.push_back(start_of(made.dtype(), made.shape(), on_meta, start, i));
            } else {
                Tensor root = unwrap(t);
                gradients.push_back(
                    start_of(root.dtype(), root.shape(), root.on_meta(), start, i, &root));
            }
        }
    }
    std::vector<Edge> roots;
    std::vector<Tensor> gradients;
};

/// Where it ends: the nodes of `inputs`, some of which are parts of a block's.
struct Targets {
    void add(const Object& inputs, bool accumulate) {
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(inputs.get()); ++i) {
            PyObject* t = PySequence_Fast_GET_ITEM(inputs.get(), i);
            edges.push_back(edge_of(t, accumulate ? "backward" : "grad", false));
            wanted.push_back(is_edge(t) ? Tensor() : unwrap(t));
            parts.push_back(is_edge(t) ? std::nullopt : part_of(wanted.back()));
            if (accumulate && !is_edge(t)) retain_grad(wanted.back());  // a leaf does anyway
            if (parts.back()) edges.back() = parts.back()->whole;
        }
    }
    std::vector<Edge> edges;
    std::vector<Tensor> wanted;
    std::vector<std::optional<PartOf>> parts;
};

/// _backward(tensors, gradients, keep_graph, create_graph, inputs or None, allow_unused, accumulate)
PyObject* py_backward(PyObject*, PyObject* const* args, Py_ssize_t n) {
    return guarded([&] {
        WEFT_EXPECT(n == 7, Type, "_backward", "7 arguments", std::to_string(n));
        if (PyObject* done = backward_if_recorded(args, n)) return done;
        Object tensors = fast(args[0], "tensors"), gradients = fast(args[1], "gradients");
        if (mode & kMapMode)
            if (mapped::Level* level = level_of(tensors))
                if (PyObject* found = backward_of_wholes(*level, tensors, gradients, args))
                    return found;
        const bool accumulate = args[6] == Py_True;
        deferred::InTurn in_order((mode & kDeferMode) && accumulate ? deferred::kAllLevels : 0);
        deferred::note_change();
        Starts starts;
        starts.add(tensors, gradients);
        Object inputs = args[4] == Py_None ? Object() : fast(args[4], "inputs");
        Targets targets;
        if (inputs) targets.add(inputs, accumulate);
        // Within autobatch other examples may share the nodes, and want them too: known only now, as
        // this one may have waited for a tensor above.
        deferred::Batcher& batcher = deferred::Batcher::current();
        bool inside = (mode & kDeferMode) && (!batcher.batch || batcher.batch->outermost().merged);
        batcher.tally.passes += inside;
        if (accumulate && args[3] == Py_True) warn_of_cycle();
        BackwardOptions options{args[2] == Py_True || inside, args[3] == Py_True, accumulate,
                                inside};
        std::vector<Tensor> found =
            backward_once(starts.roots, std::move(starts.gradients), targets.edges, options);
        if (!inside && !options.create_graph) passes.end();  // else its graph is to go on
        for (size_t i = 0; i < found.size(); ++i) {
            const std::optional<PartOf>& part = targets.parts[i];
            if (part && found[i].defined()) found[i] = part->take(found[i]);
            WEFT_EXPECT(found[i].defined() || args[5] == Py_True, Runtime, "grad",
                        "inputs of what is differentiated",
                        text("another (The differentiated Tensor at index ", i,
                             " appears to not have been used in the graph. Set allow_unused=True "
                             "if this is the desired behavior.)"));
        }
        return tuple_of(found).release();
    });
}

PyObject* py_register_hook(PyObject*, PyObject* const* args, Py_ssize_t) {
    return guarded([&] {
        refuse_recorded("register_hook");
        Tensor t = expect_tensor(args[0], "register_hook");
        Ref<Hook> hook(new PyHook(args[1], HookStyle::Gradient));
        add_tensor_hook(t, hook);
        if (GradMeta* m = meta_or_null(t)) purge(m->hooks);
        track_cycles(args[0]);
        return hook_handle(hook);
    });
}
PyObject* py_register_after_accumulate(PyObject*, PyObject* const* args, Py_ssize_t) {
    return guarded([&] {
        Tensor t = expect_tensor(args[0], "register_post_accumulate_grad_hook");
        WEFT_EXPECT(
            requires_grad(t) && is_leaf(t), Runtime, "register_post_accumulate_grad_hook",
            "a leaf tensor that requires grad (post accumulate grad hooks cannot be registered "
            "on non-leaf tensors)",
            requires_grad(t) ? "a non-leaf" : "one that does not");
        Ref<Hook> hook(new PyHook(args[1], HookStyle::Plain));
        purge(meta(t).after_accumulate);
        meta(t).after_accumulate.push_back(hook);
        track_cycles(args[0]);
        return hook_handle(hook);
    });
}
PyObject* py_queue_callback(PyObject*, PyObject* f) {
    return guarded([&] {
        after_backward(Ref<Hook>(new PyHook(f, HookStyle::Plain)));
        return Py_NewRef(Py_None);
    });
}
/// What PyTorch calls the node of an in-place form, by that of the view.
std::string in_place_node(const std::string& name) {
    for (int squeezed = 0; squeezed < 3; ++squeezed)
        if (name == text("SqueezeBackward", squeezed)) return text("SqueezeBackward", squeezed + 3);
    if (name.ends_with("Backward0")) return name.substr(0, name.size() - 1) + "1";
    return name;
}

/// _become_view(tensor, name, take): the in-place form of a view op; `take()` gives the view, when
/// it is the writer's turn.
PyObject* py_become_view(PyObject*, PyObject* const* args, Py_ssize_t) {
    return guarded([&] {
        std::string who(to_text(args[1]));
        Tensor t = expect_tensor(args[0], who.c_str());
        auto take = [&] {
            ModeGuard now(0, kDeferMode);
            return expect_tensor(Object::borrow(args[2]).call().get(), who.c_str());
        };
        become_view(who, t, take, in_place_node);
        return Py_NewRef(args[0]);
    });
}
/// _resize(tensor, sizes)
PyObject* py_resize(PyObject*, PyObject* const* args, Py_ssize_t) {
    return guarded([&] {
        Tensor t = expect_tensor(args[0], "resize_");
        Dims sizes;
        WEFT_EXPECT(to_dims(args[1], sizes), Type, "resize_", "sizes", Py_TYPE(args[1])->tp_name);
        WEFT_EXPECT(!requires_grad(t), Runtime, "resize_",
                    "a tensor outside the graph (cannot resize variables that require grad)",
                    "one that requires grad");
        if (equal(t.shape(), sizes)) return Py_NewRef(args[0]);
        ops::Write write(t);
        write.resize(sizes);
        write.commit();
        return Py_NewRef(args[0]);
    });
}
/// _set(tensor, source): it shows the source's memory under its layout.
PyObject* py_set(PyObject*, PyObject* const* args, Py_ssize_t) {
    return guarded([&] {
        Tensor t = expect_tensor(args[0], "set_");
        ops::Write write(t);  // it takes its turn before the source, which may wait, is computed
        Tensor source = expect_tensor(args[1], "set_");
        WEFT_EXPECT(source.has(kMeta) == t.has(kMeta), Runtime, "set_", "memory of the same device",
                    text("another (Attempted to set the storage of a tensor on device \"",
                         device_name(t.has(kMeta)), "\" to a storage on different device \"",
                         device_name(source.has(kMeta)),
                         "\".  This is no longer allowed; the devices must match.)"));
        write.show(source);
        write.commit();
        return Py_NewRef(args[0]);
    });
}
/// _gradient_edge(tensor): (node, output number)
PyObject* py_gradient_edge(PyObject*, PyObject* o) {
    return guarded([&] {
        Edge e = gradient_edge(expect_tensor(o, "gradient_edge"));
        return Py_BuildValue("(NI)", wrap_node(e.node), e.output);
    });
}

/// _set_mode(flags): the new flags (bit 0 grad, bit 1 inference); returns the old ones.
PyObject* py_set_mode(PyObject*, PyObject* flags) {
    long f = PyLong_AsLong(flags);
    if (f == -1 && PyErr_Occurred()) return nullptr;
    uint32_t old = mode;
    // a watcher comes and goes by itself: scopes need not nest in its
    mode = (static_cast<uint32_t>(f) & ~kWatchMode) | (mode & kWatchMode);
    if (!(mode & kInferenceMode)) mode &= ~kEnabledInInference;
    else if (mode & kGradMode) mode = (mode & ~kGradMode) | kEnabledInInference;
    return PyLong_FromLong(old);
}
PyObject* py_mode(PyObject*, PyObject*) { return PyLong_FromLong(mode); }
PyObject* py_is_grad_enabled(PyObject*, PyObject*) {
    return PyBool_FromLong(mode & (kGradMode | kEnabledInInference));
}

PyObject* py_is_autocast_cpu_enabled(PyObject*, PyObject*) {
    return PyBool_FromLong(mode & kAutocastMode);
}

/// _rename_node(tensor, name): what the node of a tensor made of several ops is called; returns it.
PyObject* py_rename_node(PyObject*, PyObject* args) {
    PyObject* tensor;
    const char* name;
    if (!PyArg_ParseTuple(args, "Os", &tensor, &name)) return nullptr;
    return guarded([&] {
        const Tensor& t = expect_tensor(tensor, "_rename_node");
        if (requires_grad(t) && !is_leaf(t))
            if (auto* node = dynamic_cast<OpNode*>(gradient_edge(t).node.get())) node->rename(name);
        return Py_NewRef(tensor);
    });
}

/// _forget_casts(): the outermost scope of autocast ends.
PyObject* py_forget_casts(PyObject*, PyObject*) {
    return guarded([&] {
        forget_casts();
        Py_RETURN_NONE;
    });
}
PyObject* py_keep_casts(PyObject*, PyObject* on) {
    ops::scopes.keeps_casts = on == Py_True;
    Py_RETURN_NONE;
}
PyObject* py_keeps_casts(PyObject*, PyObject*) { return PyBool_FromLong(ops::scopes.keeps_casts); }

/// _set_zeros_matter(bool), a test switch (saved.h): returns what it was.
PyObject* set_zeros_matter(PyObject*, PyObject* on) {
    return PyBool_FromLong(std::exchange(zeros_matter, on == Py_True));
}

PyMethodDef autograd_functions[] = {
    {"_set_zeros_matter", set_zeros_matter, METH_O, nullptr},
    {"_backward", c_function(py_backward), METH_FASTCALL, nullptr},
    {"_register_hook", c_function(py_register_hook), METH_FASTCALL, nullptr},
    {"_register_after_accumulate", c_function(py_register_after_accumulate), METH_FASTCALL,
     nullptr},
    {"_queue_callback", py_queue_callback, METH_O, nullptr},
    {"_become_view", c_function(py_become_view), METH_FASTCALL, nullptr},
    {"_set", c_function(py_set), METH_FASTCALL, nullptr},
    {"_resize", c_function(py_resize), METH_FASTCALL, nullptr},
    {"_gradient_edge", py_gradient_edge, METH_O, nullptr},
    {"_set_mode", py_set_mode, METH_O, nullptr},
    {"_mode", py_mode, METH_NOARGS, nullptr},
    {"_rename_node", py_rename_node, METH_VARARGS, nullptr},
    {"_forget_casts", py_forget_casts, METH_NOARGS, nullptr},
    {"_keep_casts", py_keep_casts, METH_O, nullptr},
    {"is_autocast_cache_enabled", py_keeps_casts, METH_NOARGS,
     "Whether a scope of autocast keeps the narrow copies of weights until it ends.\n"
     "\n"
     ">>> weft.is_autocast_cache_enabled()\n"
     "True"},
    {"is_autocast_cpu_enabled", py_is_autocast_cpu_enabled, METH_NOARGS,
     "Whether the code runs in an `autocast` scope: `is_autocast_enabled(\"cpu\")`.\n"
     "\n"
     ">>> weft.is_autocast_cpu_enabled()\n"
     "False"},
    {"is_grad_enabled", py_is_grad_enabled, METH_NOARGS,
     "Whether calls are recorded.\n"
     "\n"
     ">>> weft.is_grad_enabled()\n"
     "True"},
    {}};

}  // namespace

void init_node_type(PyObject* module);

void init_autograd(PyObject* module) {
    init_hooks(module);
    init_node_type(module);
    checked(PyModule_AddFunctions(module, autograd_functions));
    install();
}

}  // namespace weft::python
