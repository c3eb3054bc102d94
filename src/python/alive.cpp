/// What is alive, and what holds it: the graph as a walk from Python's tensors sees it.
///
/// Note [Alive]
/// Nothing is counted while a program runs. Who asks gives the tensors that Python holds (found by
/// traversing all that its collector tracks, weft/see/alive.py); from there a walk goes over nodes,
/// what they saved, gradients and bases. What only the core holds, such as calls that wait for their
/// batch, is not among it, nor what pack hooks made.
#include <deque>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "autograd/accumulate.h"
#include "autograd/meta.h"
#include "python/alive.h"
#include "python/object.h"

namespace weft::python {
namespace {

/// A tensor or a node.
struct Held {
    const TensorImpl* tensor = nullptr;
    const Node* node = nullptr;
    const void* key() const {
        return tensor ? static_cast<const void*>(tensor) : static_cast<const void*>(node);
    }
};

enum class Link : uint8_t { Root, GradFn, Grad, Base, Next, Kept };
constexpr const char* kLinks[] = {"root", "grad_fn", "grad", "base", "next", "saved"};

const Node* node_of(const TensorImpl* t) {
    const Slot* slot = t->slot.get();
    if (!slot) return nullptr;
    if (slot->kind == kNodeSlot) return static_cast<const Node*>(slot);
    return slot->kind == kMetaSlot ? static_cast<const GradMeta*>(slot)->grad_fn.get() : nullptr;
}

/// What a thing holds by itself.
template <class F>
void visit_held(const Held& thing, F&& see) {
    if (const TensorImpl* t = thing.tensor) {
        if (const Node* node = node_of(t)) see(Link::GradFn, Held{.node = node});
        const Slot* slot = t->slot.get();
        if (!slot || slot->kind != kMetaSlot) return;
        auto* meta = static_cast<const GradMeta*>(slot);
        if (meta->grad.defined()) see(Link::Grad, Held{.tensor = meta->grad.impl()});
        if (meta->base.defined()) see(Link::Base, Held{.tensor = meta->base.impl()});
        if (meta->last_write) see(Link::GradFn, Held{.node = meta->last_write.get()});
        return;
    }
    for (int i = 0; i < thing.node->edge_count(); ++i)
        if (const Node* next = thing.node->edge(i).node.get()) see(Link::Next, Held{.node = next});
    thing.node->visit_kept([&](const Tensor& t) { see(Link::Kept, Held{.tensor = t.impl()}); });
}

/// Breadth first, so that the way to each thing is a shortest one.
class Walk {
public:
    struct Step {
        Held thing;
        Link link;
        int32_t before;  ///< in `steps`; -1: a root
    };
    /// From the tensors among `roots` (a list), but for `left_out`.
    Walk(PyObject* roots, const void* left_out) {
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(roots); ++i) {
            PyObject* root = PyList_GET_ITEM(roots, i);
            if (!is_tensor(root)) continue;
            const Held thing{.tensor = reinterpret_cast<PyTensor*>(root)->impl};
            if (thing.tensor && thing.key() != left_out) add(Link::Root, thing, -1);
        }
    }
    void add(Link link, const Held& thing, int32_t before) {
        if (seen_.insert(thing.key()).second) steps.push_back({thing, link, before});
    }
    /// To the end; `meets(link, thing, from)` is asked of each link, and false leaves it.
    template <class F>
    void run(F&& meets) {
        for (size_t at = 0; at < steps.size(); ++at) {
            const Held from = steps[at].thing;
            visit_held(from, [&](Link link, const Held& thing) {
                if (meets(link, thing, static_cast<int32_t>(at)))
                    add(link, thing, static_cast<int32_t>(at));
            });
        }
    }
    std::deque<Step> steps;

private:
    std::unordered_set<const void*> seen_;
};

/// (name, code object or None, line) of a node.
Object node_entry(const Node& node) {
    auto* code = static_cast<PyCodeObject*>(node.site.code());
    if (!code)
        return Object::take(Py_BuildValue("(NOi)", py_str(node.name()).release(), Py_None, 0));
    const int line = PyCode_Addr2Line(code, node.site.offset());
    return Object::take(Py_BuildValue("(NOi)", py_str(node.name()).release(), code, line));
}

struct Row {
    const Node* node = nullptr;  ///< one of those of the row; null: of tensors without
    int64_t nodes = 0, tensors = 0, bytes = 0;
};

/// By whom a tensor was made: a line, or what kind it is of those without.
class Rows {
public:
    Row& of(const Node& node) {
        if (dynamic_cast<const AccumulateGrad*>(&node)) return of("");
        const Key key{node.site.code(), node.site.offset(), node.name()};
        Row& row = lines_[key];
        row.node = &node;
        return row;
    }
    Row& of(const std::string& kind) { return kinds_[kind]; }
    Object list() const {
        Object out = Object::take(PyList_New(0));
        auto add = [&](const Object& entry, const Row& row) {
            checked(PyList_Append(out.get(),
                                  Object::take(Py_BuildValue("(OLLL)", entry.get(), row.nodes,
                                                             row.tensors, row.bytes))
                                      .get()));
        };
        for (auto& [key, row] : lines_) add(node_entry(*row.node), row);
        for (auto& [kind, row] : kinds_)
            add(Object::take(Py_BuildValue("(sOi)", kind.c_str(), Py_None, 0)), row);
        return out;
    }

private:
    using Key = std::tuple<const void*, int32_t, std::string>;
    std::map<Key, Row> lines_;
    std::map<std::string, Row> kinds_;
};

/// _alive(tensors): rows ((name, code, line), nodes, tensors, bytes) of what is reached from them, and
/// the nodes' numbers in order of recording, as bytes of uint64.
PyObject* alive(PyObject*, PyObject* roots) {
    return guarded([&] {
        Walk walk(roots, nullptr);
        walk.run([](Link, const Held&, int32_t) { return true; });
        Rows rows;
        std::string numbers;
        std::unordered_set<const Storage*> storages;
        for (const Walk::Step& step : walk.steps) {
            if (const Node* node = step.thing.node) {
                Row& row = rows.of(*node);
                ++row.nodes;
                if (dynamic_cast<const AccumulateGrad*>(node)) continue;
                numbers.append(reinterpret_cast<const char*>(&node->sequence), sizeof(uint64_t));
                continue;
            }
            const TensorImpl* t = step.thing.tensor;
            const Node* node = node_of(t);
            const bool leaf = !node && requires_grad(Tensor(const_cast<TensorImpl*>(t)));
            // of an output's memory, and of what only a node keeps, the line is the node's
            if (step.link == Link::Kept && !node && !leaf)
                node = walk.steps[static_cast<size_t>(step.before)].thing.node;
            Row& row = node                      ? rows.of(*node)
                       : step.link == Link::Grad ? rows.of("gradients")
                       : leaf                    ? rows.of("leaves that require grad")
                                                 : rows.of("tensors outside the graph");
            ++row.tensors;
            const Storage* storage = t->storage.get();
            if (storage && storage->block && storages.insert(storage).second)
                row.bytes += storage->bytes;
        }
        Object raw = Object::take(
            PyBytes_FromStringAndSize(numbers.data(), static_cast<Py_ssize_t>(numbers.size())));
        return Py_BuildValue("(NN)", rows.list().release(), raw.release());
    });
}

/// The way to a step from its root: (link, entry, tensor or None), where the entry is None of a tensor.
Object way_to(const Walk& walk, int32_t at) {
    Object out = Object::take(PyList_New(0));
    for (; at >= 0; at = walk.steps[static_cast<size_t>(at)].before) {
        const Walk::Step& step = walk.steps[static_cast<size_t>(at)];
        Object tensor = none(), entry = none();
        if (step.thing.node) entry = node_entry(*step.thing.node);
        else tensor = Object::take(wrap(Tensor(const_cast<TensorImpl*>(step.thing.tensor))));
        checked(PyList_Append(
            out.get(), Object::take(Py_BuildValue("(sOO)", kLinks[static_cast<int>(step.link)],
                                                  entry.get(), tensor.get()))
                           .get()));
    }
    checked(PyList_Reverse(out.get()));
    return out;
}

/// _holders(tensors, target, most): ways by which the target, a tensor, a node, or the number of a node,
/// is held from those tensors: (way to the holder, how it holds) of at most so many holders.
PyObject* holders(PyObject*, PyObject* args) {
    PyObject *roots, *target;
    int most;
    if (!PyArg_ParseTuple(args, "O!Oi", &PyList_Type, &roots, &target, &most)) return nullptr;
    return guarded([&] {
        const bool by_number = PyLong_Check(target);
        const uint64_t number = by_number ? PyLong_AsUnsignedLongLong(target) : 0;
        if (PyErr_Occurred()) throw PythonError{};
        Ref<Node> node;
        const void* wanted = nullptr;
        if (is_tensor(target)) wanted = reinterpret_cast<PyTensor*>(target)->impl;
        else if (!by_number) node = unwrap_node(target, "why_alive"), wanted = node.get();
        Walk walk(roots, wanted);
        const Storage* memory =
            is_tensor(target) ? reinterpret_cast<PyTensor*>(target)->impl->storage.get() : nullptr;
        std::vector<std::pair<int32_t, Link>> found;
        walk.run([&](Link link, const Held& thing, int32_t from) {
            // an output is saved as another tensor over its memory (Note [Saved outputs])
            const bool same = memory && link == Link::Kept && thing.tensor->storage.get() == memory;
            const bool is_it = same || (by_number ? thing.node && thing.node->sequence == number
                                                  : thing.key() == wanted);
            if (is_it && static_cast<int>(found.size()) < most &&
                (found.empty() || found.back().first != from))
                found.emplace_back(from, link);
            return !is_it || (same && thing.key() != wanted);
        });
        Object out = Object::take(PyList_New(0));
        for (auto [from, link] : found)
            checked(PyList_Append(out.get(),
                                  Object::take(Py_BuildValue("(Ns)", way_to(walk, from).release(),
                                                             kLinks[static_cast<int>(link)]))
                                      .get()));
        return out.release();
    });
}

int add_tensor(PyObject* seen, void* to) {
    if (is_tensor(seen)) return PyList_Append(static_cast<PyObject*>(to), seen);
    return 0;
}

/// _tensors_in(objects): the tensors among those of a list and what they hold, as Python's collector
/// sees it; some come several times.
PyObject* tensors_in(PyObject*, PyObject* objects) {
    return guarded([&] {
        WEFT_EXPECT(PyList_Check(objects), Type, "_tensors_in", "a list",
                    Py_TYPE(objects)->tp_name);
        Object out = Object::take(PyList_New(0));
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(objects); ++i) {
            PyObject* o = PyList_GET_ITEM(objects, i);
            checked(add_tensor(o, out.get()));
            // objects of types that allocate none of this do not traverse
            if (PyObject_IS_GC(o) && o != out.get() && Py_TYPE(o)->tp_traverse)
                checked(Py_TYPE(o)->tp_traverse(o, add_tensor, out.get()));
        }
        return out.release();
    });
}

}  // namespace

void Passes::look() {
    const uint64_t now = nodes_alive();
    begun_ = !begun_;
    if (begun_) {
        before_ = now;
        next_ = count_ + kWindow;
        return;
    }
    next_ = 2 * count_ - kWindow;
    grown_ = now >= before_ + kWindow - kFew ? grown_ + 1 : 0;
    if (grown_ >= 2) tell();
}

void Passes::tell() {
    Object ends = Object::take(PyList_New(0));
    for (uint64_t i = 0; i < kWindow; ++i)
        checked(PyList_Append(ends.get(),
                              py_int(static_cast<int64_t>(ends_[(count_ + i) % kWindow])).get()));
    import_attr("weft.see.alive", "_look_for_growth").call(ends);
}

namespace {

PyMethodDef alive_functions[] = {
    {"_alive", alive, METH_O, nullptr},
    {"_holders", holders, METH_VARARGS, nullptr},
    {"_tensors_in", tensors_in, METH_O, nullptr},
    {"_nodes_made",
     [](PyObject*, PyObject*) -> PyObject* { return PyLong_FromUnsignedLongLong(nodes_made()); },
     METH_NOARGS, nullptr},
    {}};

}  // namespace

void init_alive(PyObject* module) { checked(PyModule_AddFunctions(module, alive_functions)); }

}  // namespace weft::python
