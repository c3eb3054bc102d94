#include "python/node_saved.h"

namespace weft::python {
namespace {

constexpr std::string_view kPrefix = "_saved_";

/// The name that PyTorch gives to output `k`: the record's, or "result", or "result1" of several.
std::string output_name(const OpNode& node, int k) {
    const auto& names = node.op().output_names;
    if (static_cast<size_t>(k) < names.size() && !names[static_cast<size_t>(k)].empty())
        return names[static_cast<size_t>(k)];
    return node.output_count() == 1 ? "result" : text("result", k);
}

/// The bits (see save_in) of what a parameter stands for: of a list the last inputs, as many as the
/// call had.
std::pair<int, int> bits_of(const OpNode& node, const Param& p) {
    const bool list = p.kind == Param::Kind::Tensors;
    return {p.slot, list ? std::max(p.slot, std::min(node.edge_count(), 16)) : p.slot + 1};
}

bool reads(const OpNode& node, const Param& p) {
    if (!p.is_input()) return true;
    auto [first, end] = bits_of(node, p);
    for (int bit = first; bit < end; ++bit)
        if (node.may_keep(bit)) return true;
    return false;
}

Object saved_value(const OpNode& node, int bit) {
    return node.keeps(bit) ? Object::take(wrap(node.saved(bit))) : none();
}

Object value_of(const OpNode& node, const Param& p) {
    if (!p.is_input()) {
        Object value = Object::take(to_python(node.attr(p.slot)));
        if (!PyTuple_Check(value.get())) return value;  // sizes are plain tuples here
        return Object::take(PyTuple_GetSlice(value.get(), 0, PyTuple_GET_SIZE(value.get())));
    }
    auto [first, end] = bits_of(node, p);
    if (p.kind == Param::Kind::Tensor) return saved_value(node, first);
    Object out = Object::take(PyTuple_New(end - first));
    for (int bit = first; bit < end; ++bit)
        PyTuple_SET_ITEM(out.get(), bit - first, saved_value(node, bit).release());
    return out;
}

}  // namespace

std::vector<std::string> saved_names(const OpNode& node) {
    std::vector<std::string> out;
    for (const Param& p : node.op().params)
        if (reads(node, p)) out.push_back(text(kPrefix, p.name));
    for (int k = 0; k < std::min(node.output_count(), 16); ++k)
        if (node.may_keep(16 + k)) out.push_back(text(kPrefix, output_name(node, k)));
    return out;
}

Object saved_attribute(const OpNode& node, std::string_view name) {
    if (!name.starts_with(kPrefix)) return {};
    name.remove_prefix(kPrefix.size());
    for (const Param& p : node.op().params)
        if (p.name == name && reads(node, p)) return value_of(node, p);
    for (int k = 0; k < std::min(node.output_count(), 16); ++k)
        if (node.may_keep(16 + k) && output_name(node, k) == name) return saved_value(node, 16 + k);
    return {};
}

}  // namespace weft::python
