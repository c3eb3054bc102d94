#include "ops/table.h"

#include "ops/schema.h"

namespace weft {

// clang-format off
#define WEFT_FAMILIES(X) \
    X(unary) X(activation) X(rectifier) X(binary) X(compare) X(power) X(ternary) X(shape) \
    X(place) X(part) X(strided) X(join) X(copy_ops) X(matmul) X(recurrent) X(sequence) \
    X(rearrange) X(index) X(gather) X(mask) X(embedding) X(create) X(random) X(random_fill) \
    X(bernoulli) X(reduce) X(extrema) X(moments) X(softmax) X(norm) X(attention) X(distance) \
    X(cumulative) X(sort) X(loss) X(ctc) X(margin) X(binary_loss) X(cross_entropy) X(complex) \
    X(transcendental) X(bits) X(conv) X(pad) X(pool) X(batch_norm) X(resample) X(grid_sample) X(scan) X(scatter_reduce) \
    X(poisson) X(special) X(gamma_draw) X(sparse_product) X(tie) X(fft) \
    X(linear_system) X(lu) X(ldl) X(triangular) X(cholesky) X(orthogonal) X(spectral) X(least_squares) X(matrix_exp)
// clang-format on

#define X(family) void register_##family(Table& table);
WEFT_FAMILIES(X)
#undef X

OpBuilder Table::add(std::string_view schema, std::source_location where) {
    Op& op = ops_.emplace_back();
    parse_schema(schema, op);
    op.where = where;
    bool fresh = by_name_.emplace(op.name, &op).second;
    WEFT_EXPECT(fresh, Value, "table", "a name that is free", op.name);
    return OpBuilder(op);
}

const Op* Table::find(std::string_view name) const {
    auto it = by_name_.find(std::string(name));
    return it == by_name_.end() ? nullptr : it->second;
}

const Op& Table::at(std::string_view name) const {
    const Op* op = find(name);
    WEFT_EXPECT(op, Value, "table", "the name of an op", text("'", name, "'"));
    return *op;
}

OpBuilder& OpBuilder::doc(std::string_view text) {
    op_.doc = text;
    return *this;
}

OpBuilder& OpBuilder::node_name(std::string_view name) {
    op_.node_name = name;
    return *this;
}

OpBuilder& OpBuilder::onnx(std::string_view expression) {
    op_.onnx = expression;
    return *this;
}

OpBuilder& OpBuilder::no_onnx(std::string_view why) {
    op_.no_onnx = why;
    return *this;
}

OpBuilder& OpBuilder::alias(std::string_view name) {
    op_.aliases.emplace_back(name);
    return *this;
}

OpBuilder& OpBuilder::samples(std::initializer_list<std::string_view> calls) {
    op_.samples.assign(calls.begin(), calls.end());
    return *this;
}

OpBuilder& OpBuilder::samples(std::vector<std::string> calls) {
    op_.samples = std::move(calls);
    return *this;
}

OpBuilder& OpBuilder::grad(int i, SaveMask saved, GradRule rule) {
    if (static_cast<int>(op_.grads.size()) <= i) {
        op_.grads.resize(i + 1);
        op_.saves.resize(i + 1);
    }
    op_.grads[i] = rule;
    op_.saves[i] = saved;
    return *this;
}

OpBuilder& OpBuilder::alias_of(std::string_view name, std::string alias) {
    for (Param& p : op_.params)
        if (p.name == name) {
            p.aliases.push_back(std::move(alias));
            return *this;
        }
    fail(ErrorKind::Value, "table", text("a parameter of ", op_.schema), text("'", name, "'"));
}

OpBuilder& OpBuilder::no_derivative() {
    for (int i = 0; i < op_.inputs; ++i)
        grad(i, 0, [](const Grad& g) -> Tensor {
            fail(ErrorKind::Runtime, g.op().public_name, "a result whose gradient nobody asks for",
                 text("a pass that came to it (derivative for aten::", g.op().public_name,
                      " is not implemented)"),
                 "detach() it");
        });
    return node_name("NotImplemented");
}

const Table& table() {
    static const Table* built = [] {
        auto* t = new Table;
#define X(family) register_##family(*t);
        WEFT_FAMILIES(X)
#undef X
        return t;
    }();
    return *built;
}

}  // namespace weft
