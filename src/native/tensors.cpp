/// Reading guide: numbers and tensors; operators; items; attributes; new tensors.
#include "native/tensors.h"

#include <algorithm>
#include <map>
#include <memory>

#include "autograd/meta.h"
#include "kernels/convert.h"
#include "native/package.h"
#include "ops/element.h"
#include "ops/indexing.h"
#include "ops/pointwise.h"
#include "ops/subscript.h"
#include "ops/write.h"
#include "tensor/format.h"

namespace weft::native {

Tensor operand(Raw tensor) {
    Tensor t = tensor.tensor();
    if (t.has(kPending)) [[unlikely]]
        ops::settle_for_call(t);
    return t;
}

Tensor reading(Raw tensor) {
    Tensor t = tensor.tensor();
    if (t.has(kPending)) [[unlikely]]
        return promise(t).peek(t);
    return t;
}

Tensor number_tensor(Raw number, const Tensor* like) {
    const bool floating_like = like && is_floating(like->dtype());
    switch (number.kind()) {
        case Kind::Bool:
            return Tensor::scalar(number.truth_of_bool(), DType::Bool, true);
        case Kind::Complex:
            return Tensor::scalar(number_as_complex(number), DType::Complex128, true);
        case Kind::Int:
            if (!floating_like) return Tensor::scalar(int_in(number), DType::Int64, true);
            break;
        default:
            break;
    }
    return Tensor::scalar(number_as_double(number),
                          floating_like ? widened(like->dtype()) : DType::Float64, true);
}

namespace {

Thing of_unsigned(uint64_t v) {
    if (v >> 63)
        raise_as(types::OverflowError, "[int] expected a value of 64 bits with a sign, got ", v);
    return of_int(static_cast<int64_t>(v));
}

}  // namespace

Thing item_of(const Tensor& t) {
    if (is_floating(t.dtype())) return of_double(t.item_double());
    if (is_complex(t.dtype())) return of_complex(t.item_complex());
    const int64_t v = t.item_int();
    if (t.dtype() == DType::Bool) return of_bool(v != 0);
    return t.dtype() == DType::UInt64 ? of_unsigned(static_cast<uint64_t>(v)) : of_int(v);
}

// ---- operators

namespace {

struct NamedOp {
    explicit NamedOp(const char* name) : op(table().at(name)) {}
    const Op& op;
};

const Op& op_of(int32_t op) {
    static const NamedOp ops[] = {NamedOp("add"),
                                  NamedOp("sub"),
                                  NamedOp("mul"),
                                  NamedOp("div"),
                                  NamedOp("floor_divide"),
                                  NamedOp("remainder"),
                                  NamedOp("pow"),
                                  NamedOp("matmul"),
                                  NamedOp("bitwise_and"),
                                  NamedOp("bitwise_or"),
                                  NamedOp("bitwise_xor"),
                                  NamedOp("bitwise_left_shift"),
                                  NamedOp("bitwise_right_shift")};
    return ops[op].op;
}

/// Empty: one is neither a tensor nor a number.
Thing call_binary(const Op& op, Raw a, Raw b) {
    const bool ta = a.is_tensor(), tb = b.is_tensor();
    Tensor in[2];
    if (ta) in[0] = operand(a);
    if (tb) in[1] = operand(b);
    if (!ta || !tb) {
        const Raw other = ta ? b : a;
        if (!is_number(other)) return {};
        in[ta ? 1 : 0] = number_tensor(other, &in[ta ? 0 : 1]);
    }
    Call c(op, in, 2, op.defaults.data());
    ops::call(c);
    return Thing(std::move(c.out(0)));
}

}  // namespace

Thing tensor_binary(int32_t op, Raw a, Raw b) {
    if (op == MatMul && !(a.is_tensor() && b.is_tensor())) return {};
    if (!a.is_tensor() && (op == Sub || op == Div)) {
        static const NamedOp rsub("rsub"), rdiv("rdiv");
        return call_binary(op == Sub ? rsub.op : rdiv.op, b, a);
    }
    return call_binary(op_of(op), a, b);
}

Thing tensor_inplace(int32_t op, Raw a, Raw b) {
    if (op == MatMul) return {};
    Tensor in[2] = {operand(a)};
    if (b.is_tensor()) in[1] = operand(b);
    else if (is_number(b)) in[1] = number_tensor(b, &in[0]);
    else return {};
    const Op& record = op_of(op);
    Call c(record, in, 2, record.defaults.data());
    c.dest = in[0];
    c.in_place = true;
    ops::call(c);
    return Thing::borrow(a);
}

Thing tensor_unary(int32_t op, Raw a) {
    static const NamedOp neg("neg"), invert("bitwise_not");
    if (op == 1) return Thing::borrow(a);
    const Tensor t = operand(a);
    if (op != 0) ops::expect_bits(t);
    return Thing(ops::call1(op == 0 ? neg.op : invert.op, {t}));
}

Thing tensor_compare(int32_t op, Raw a, Raw b) {
    static const NamedOp ops[] = {NamedOp("lt"), NamedOp("le"), NamedOp("eq"),
                                  NamedOp("ne"), NamedOp("gt"), NamedOp("ge")};
    return call_binary(ops[op].op, a, b);
}

bool tensor_truth(Raw tensor) { return ops::truth_of(reading(tensor)); }

bool tensor_contains(Raw tensor, Raw item) {
    WEFT_EXPECT(item.is_tensor() || is_number(item), Runtime, "contains",
                "a Tensor or a number (Tensor.__contains__ only supports Tensor or scalar)",
                type_name(item));
    static const NamedOp any("any");
    const Thing same = tensor_compare(2, tensor, item);
    return truth(Thing(ops::call1(any.op, {same.get().tensor()})).get());
}

int64_t tensor_length(Raw tensor) { return ops::length_of(tensor.tensor()); }

int64_t tensor_index(Raw tensor) {
    const Tensor t = reading(tensor);
    ops::expect_index(t);
    return int_in(item_of(t).get());
}

int64_t tensor_as_int(Raw tensor) {
    const Tensor t = reading(tensor);
    ops::expect_one(t, "int");
    return is_floating(t.dtype()) ? int_of_double(t.item_double()) : t.item_int();
}

double tensor_as_double(Raw tensor) {
    const Tensor t = reading(tensor);
    ops::expect_one(t, "float");
    return t.item_double();
}

Thing tensor_rows(Raw tensor) {
    const Tensor t = operand(tensor);
    ops::expect_rows(t);
    static const ops::Function unbind{"unbind"};
    std::vector<Thing> rows;
    for (Tensor& row : unbind.all({t}, {0})) rows.emplace_back(std::move(row));
    return tuple_of(std::move(rows));
}

// ---- items

namespace {

Value bound_of(Raw r) {
    return r.is_none() ? Value()
                       : Value(index_of(r, "slice indices must be integers or None or have an "
                                           "__index__ method"));
}

ops::Subscript subscript_of(Raw item) {
    using Of = ops::Subscript::Kind;
    ops::Subscript out{};
    switch (item.kind()) {
        case Kind::Int:
            out.kind = Of::Int;
            out.number = int_in(item);
            return out;
        case Kind::Slice: {
            const auto* s = item.as<Slice>();
            out.kind = Of::Slice;
            out.number =
                s->step.is_none() ? 1 : int_in(Thing(of_int(index_of(s->step, nullptr))).get());
            out.start = bound_of(s->start);
            out.stop = bound_of(s->stop);
            return out;
        }
        case Kind::None:
            out.kind = Of::NewAxis;
            return out;
        case Kind::Ellipsis:
            out.kind = Of::Ellipsis;
            return out;
        case Kind::Bool:
            out.kind = Of::Flag;
            out.number = item.truth_of_bool();
            return out;
        case Kind::Tensor: {
            const Tensor t = item.tensor();
            if (t.ndim() == 0 && ops::is_mask(t)) {
                out.kind = Of::Flag;
                out.number = reading(item).item_int() != 0;
            } else if (t.ndim() == 0 && category(t.dtype()) == Category::Integer &&
                       !(t.has(kPending) && promise(t).taken_in() == kMapMode)) {
                out.kind = Of::Int;
                out.number = reading(item).item_int();
            } else {
                out.kind = Of::Index;
                out.index = operand(item);
                if (t.dtype() != DType::Int64 && out.index.has(kPending)) ops::settle(out.index);
            }
            return out;
        }
        default: {
            WEFT_EXPECT(is_sequence(item) || item.is(Kind::Range) || item.is(Kind::Text), Index,
                        "index", "another index",
                        text(type_name(item),
                             " (only integers, slices (`:`), ellipsis (`...`), None and long or "
                             "byte Variables are valid indices (got ",
                             type_name(item), "))"));
            out.kind = Of::Index;
            out.index = tensor_from(item, Raw::none()).get().tensor();
            if (out.index.numel() == 0 && is_floating(out.index.dtype()))
                out.index = Tensor::empty(DType::Int64, out.index.shape());
            const DType t = out.index.dtype();
            WEFT_EXPECT(t == DType::Bool || t == DType::Int64 || t == DType::UInt8 ||
                            t == DType::Int32,
                        Index, "index", "ints, slices, None, ..., or integer or bool tensors",
                        type_name(item));
            return out;
        }
    }
}

/// Whether a list is a key of several subscripts, as in `stands_for_tuple` of python/index.cpp.
bool stands_for_tuple(Raw key) {
    if (!key.is(Kind::List)) return false;
    const Items items = items_in(key);
    return items.size < 32 && std::any_of(
                                  items.begin(), items.end(),
                                  [](Raw item) {
                                      return item.is_tensor() || is_sequence(item) ||
                                             item.is(Kind::Range) || item.is(Kind::Text) ||
                                             item.is(Kind::Slice) || item.is_none() ||
                                             item.is(Kind::Ellipsis);
                                  });
}

std::vector<ops::Subscript> key_of(Raw key) {
    std::vector<ops::Subscript> out;
    const bool several = key.is(Kind::Tuple) || stands_for_tuple(key);
    out.reserve(several ? static_cast<size_t>(items_in(key).size) : 1);
    if (several)
        for (Raw item : items_in(key)) out.push_back(subscript_of(item));
    else out.push_back(subscript_of(key));
    return out;
}

}  // namespace

Thing tensor_get_item(Raw tensor, Raw key) {
    const Tensor t = operand(tensor);
    if (key.is_small()) {
        return Thing(ops::get_row(t, key.small()));
    }
    return Thing(ops::get_subscript(t, key_of(key)));
}

void tensor_set_item(Raw tensor, Raw key, Raw value) {
    const Tensor t = operand(tensor);
    const std::vector<ops::Subscript> where = key_of(key);
    Tensor v;
    if (value.is_tensor()) v = operand(value);
    else if (is_number(value)) {
        v = number_tensor(value, &t);
        ops::expect_assignable(v, t);
    } else if (is_sequence(value)) v = tensor_from(value, Raw::none()).get().tensor();
    else fail(ErrorKind::Type, "index", "a tensor, number or sequence to assign", type_name(value));
    ops::set_subscript(t, where, v);
}

// ---- attributes

Thing size_of(DimSpan dims) {
    Thing out = new_tuple(static_cast<int64_t>(dims.size()), &size_class());
    for (size_t k = 0; k < dims.size(); ++k)
        out.as<Tuple>()->items()[k] = of_int(dims[k]).release();
    return out;
}

std::string tensor_repr(Raw tensor) {
    Tensor t = tensor.tensor();
    if (t.has(kPending)) ops::settle(t);
    auto extra = layout_suffixes(t.dtype(), t.shape(), ops::default_dtype);
    if (Ref<Node> fn = grad_fn(t))
        extra.push_back("grad_fn=<" + fn->name_of(static_cast<int>(output_number(t))) + ">");
    else if (requires_grad(t)) extra.push_back("requires_grad=True");
    return format_tensor({t.dtype(), t.bytes(), t.shape(), t.strides()}, "tensor(", extra);
}

namespace {

Tensor reversed_dims(const Tensor& t) {
    Dims order;
    for (int d = t.ndim() - 1; d >= 0; --d) order.push_back(d);
    return ops::permute(t, order);
}
Tensor conjugated(const Tensor& t) {
    static const ops::Function conj{"conj"};
    return conj(t);
}
/// The last two dimensions swapped.
Tensor matrix_transposed(const Tensor& t) {
    if (t.ndim() == 0) return t;
    WEFT_EXPECT(t.ndim() >= 2, Runtime, "mT", "a matrix or a batch of them",
                text(t.ndim(), " dimensions"));
    return ops::transpose(t, -2, -1);
}
Tensor adjoint_of_matrix(const Tensor& t) {
    WEFT_EXPECT(t.ndim() == 0 || t.ndim() == 2, Runtime, "H",
                "a matrix (tensor.H is only supported on matrices (2-D tensors))",
                text(t.ndim(), " dimensions"), "mH is for batches of matrices");
    return conjugated(t.ndim() ? ops::transpose(t, 0, 1) : t);
}

Thing data_of(const Tensor& t) {
    Tensor out = t.apart();
    if (t.has(kInference)) {
        out.set(kInference);
        out.set(kLooseView, !(mode & kInferenceMode));
    }
    return Thing(std::move(out));
}

bool wants_grad(const Tensor& t) {
    return t.has(kPending) ? promise(t).wants_grad(t) : requires_grad(t);
}

struct Attribute {
    const char* name;
    Thing (*of)(const Tensor&);
};

const Attribute kAttributes[] = {
    {"shape", [](const Tensor& t) { return size_of(t.shape()); }},
    {"dtype",
     [](const Tensor& t) {
         return Thing::steal(Raw::immediate(Kind::DType, static_cast<uint64_t>(t.dtype())));
     }},
    {"ndim", [](const Tensor& t) { return of_int(t.ndim()); }},
    {"device", [](const Tensor&) { return of_text("cpu"); }},
    {"requires_grad", [](const Tensor& t) { return of_bool(wants_grad(t)); }},
    {"is_leaf",
     [](const Tensor& t) { return of_bool(t.has(kPending) ? !wants_grad(t) : is_leaf(t)); }},
    {"grad",
     [](const Tensor& t) {
         Tensor g = grad_of(t);
         return g.defined() ? Thing(std::move(g)) : none();
     }},
    {"data",
     [](const Tensor& t) {
         if (t.has(kPending)) ops::settle(t);
         return data_of(t);
     }},
    {"T", [](const Tensor& t) { return Thing(reversed_dims(t)); }},
    {"mT", [](const Tensor& t) { return Thing(matrix_transposed(t)); }},
    {"H", [](const Tensor& t) { return Thing(adjoint_of_matrix(t)); }},
    {"mH", [](const Tensor& t) { return Thing(conjugated(matrix_transposed(t))); }},
    {"real",
     [](const Tensor& t) {
         static const ops::Function real{"real"};
         return is_complex(t.dtype()) ? Thing(real(t)) : Thing(Tensor(t));
     }},
    {"imag",
     [](const Tensor& t) {
         static const ops::Function imag{"imag"};
         return Thing(imag(t));
     }},
    {"itemsize", [](const Tensor& t) { return of_int(item_size(t.dtype())); }},
    {"nbytes", [](const Tensor& t) { return of_int(t.numel() * item_size(t.dtype())); }},
};

}  // namespace

Thing tensor_attribute(Raw tensor, const std::string& name) {
    for (const Attribute& a : kAttributes)
        if (name == a.name) return a.of(operand(tensor));
    constexpr std::string_view never[] = {"is_cuda",      "is_ipu",       "is_maia",   "is_meta",
                                          "is_mkldnn",    "is_mps",       "is_mtia",   "is_nested",
                                          "is_quantized", "is_sparse",    "is_vulkan", "is_xla",
                                          "is_xpu",       "is_sparse_csr"};
    if (std::ranges::find(never, name) != std::end(never)) return of_bool(false);
    if (name == "is_cpu") return of_bool(true);
    return {};
}

bool tensor_set_attribute(Raw tensor, const std::string& name, Raw value) {
    const Tensor t = tensor.tensor();
    if (t.has(kPending)) ops::settle(t);
    if (name == "requires_grad") {
        WEFT_EXPECT(value.is(Kind::Bool), Runtime, "requires_grad", "a bool", type_name(value));
        ops::Change change(t);
        set_requires_grad(t, value.truth_of_bool());
        return true;
    }
    const bool grad = name == "grad";
    if (!grad && name != "data") return false;
    if (grad && value.is_none()) return set_grad(t, Tensor()), true;
    WEFT_EXPECT(value.is_tensor(), Type, name, "a Tensor", type_name(value));
    if (grad) set_grad(t, operand(value));
    else take_memory(t, [&] { return operand(value); });
    return true;
}

// ---- new tensors

namespace {

constexpr int kDeepest = 64;

void find_shape(Raw data, Dims& shape) {
    if (data.is_tensor()) {
        const Tensor t = data.tensor();
        if (!shape.empty() && t.numel() == 1) return;
        for (int64_t s : t.shape()) shape.push_back(s);
        return;
    }
    if (!is_sequence(data) && !data.is(Kind::Range)) return;
    const int64_t n = length(data);
    shape.push_back(n);
    WEFT_EXPECT(shape.size() <= kDeepest, Value, "tensor", "at most 64 nested sequences", "more");
    if (n && is_sequence(data)) find_shape(items_in(data)[0], shape);
}

/// `first`: it is the first element of each of the sequences around it, `depth` in number.
void find_dtype(Raw data, DType& found, bool& any, int depth = 0, bool first = true) {
    auto add = [&](DType t) {
        found = any ? promote(found, t) : t;
        any = true;
    };
    switch (data.kind()) {
        case Kind::Bool:
            return add(DType::Bool);
        case Kind::Int:
            return add(DType::Int64);
        case Kind::Float:
            return add(ops::default_dtype);
        case Kind::Complex:
            return add(complex_dtype(ops::default_dtype));
        case Kind::Tensor:
            return add(data.tensor().dtype());
        case Kind::Range:
            if (length(data)) add(DType::Int64);
            return;
        case Kind::Tuple:
        case Kind::List:
            WEFT_EXPECT(depth < kDeepest, Type, "tensor", "at most 64 nested sequences",
                        "more (self-referential lists are incompatible)");
            for (Raw item : items_in(data)) {
                find_dtype(item, found, any, depth + 1, first);
                first = false;
            }
            return;
        default:
            fail(!data.is(Kind::Text) ? ErrorKind::Runtime
                 : depth && first     ? ErrorKind::Value
                                      : ErrorKind::Type,
                 "tensor", "numbers, sequences of numbers, arrays or tensors",
                 data.is(Kind::Text)
                     ? "str (new(): invalid data type 'str')"
                     : text(type_name(data), " (Could not infer dtype of ", type_name(data), ")"));
    }
}

/// Fills a dense tensor of a dtype that holds every number: `at` goes on.
template <class T>
void fill(Raw data, DimSpan shape, T*& at) {
    if (!shape.empty()) {
        if (data.is_tensor()) {
            const Tensor t = reading(data);
            WEFT_EXPECT(std::ranges::equal(t.shape(), shape), Value, "tensor",
                        text("elements of shape ", to_string(shape)), to_string(t.shape()));
            const Tensor dense = ops::as_contiguous(t, dtype_of<T>);
            at = std::copy_n(dense.data<T>(), dense.numel(), at);
            return;
        }
        const bool fits = (is_sequence(data) || data.is(Kind::Range)) && length(data) == shape[0];
        WEFT_EXPECT(fits, Value, "tensor", text("a sequence of length ", shape[0]),
                    is_sequence(data) ? text("one of length ", length(data)) : type_name(data));
        if (data.is(Kind::Range)) {
            for (int64_t k = 0; k < shape[0]; ++k)
                fill<T>(of_int(data.as<Range>()->at(k)).get(), shape.subspan(1), at);
            return;
        }
        for (Raw item : items_in(data)) fill<T>(item, shape.subspan(1), at);
        return;
    }
    WEFT_EXPECT(is_number(data) || data.is_tensor(), Type, "tensor", "numbers", type_name(data));
    const Thing number = data.is_tensor() ? item_of(reading(data)) : Thing::borrow(data);
    const Raw n = number.get();
    if constexpr (kernels::is_complex_v<T>) {
        *at++ = number_as_complex(n);
    } else {
        if (n.is(Kind::Complex)) raise_as(types::TypeError, "must be real number, not complex");
        if constexpr (std::is_integral_v<T>)
            *at++ = n.is(Kind::Float) ? int_of_double(double_in(n)) : int_in(n);
        else *at++ = number_as_double(n);
    }
}

}  // namespace

Thing tensor_from(Raw data, Raw dtype) {
    Dims shape;
    find_shape(data, shape);
    DType found = ops::default_dtype;
    bool any = false;
    find_dtype(data, found, any);
    const DType wanted = dtype.is(Kind::DType) ? dtype_in(dtype) : any ? found : ops::default_dtype;
    // made in the widest dtype of its kind, and converted once
    const DType wide = is_complex(found)   ? DType::Complex128
                       : is_inexact(found) ? DType::Float64
                                           : DType::Int64;
    Tensor out = Tensor::empty(wide, shape);
    auto run = [&]<class T>() {
        T* at = out.data<T>();
        fill<T>(data, shape, at);
    };
    if (wide == DType::Complex128) run.template operator()<std::complex<double>>();
    else if (wide == DType::Float64) run.template operator()<double>();
    else run.template operator()<int64_t>();
    if (wanted == wide) return Thing(std::move(out));
    if (!is_inexact(wanted) && wanted != DType::Bool && !is_inexact(wide))
        for (int64_t k = 0; k < out.numel(); ++k)
            ops::require_fits("tensor", Tensor::scalar(out.data<int64_t>()[k], DType::Int64),
                              wanted);
    return Thing(ops::as_contiguous(out, wanted));
}

Thing tensor_to_list(const Tensor& t) {
    const Tensor dense = ops::as_contiguous(t);
    auto list = [&](auto&& self, int d, int64_t& at) -> Thing {
        if (d == dense.ndim()) {
            const Tensor one = dense.view_as(Dims{}, Dims{}, at++);
            return item_of(one);
        }
        std::vector<Thing> items;
        for (int64_t k = 0; k < dense.size(d); ++k) items.push_back(self(self, d + 1, at));
        return list_of(std::move(items));
    };
    int64_t at = 0;
    return list(list, 0, at);
}

Thing results_of(Call& c) {
    if (c.outputs == 1 && c.op->outputs >= 0) return Thing(std::move(c.out(0)));
    std::vector<Thing> out;
    for (int k = 0; k < c.outputs; ++k)
        out.push_back(c.out(k).defined() ? Thing(std::move(c.out(k))) : none());
    return tuple_of(std::move(out),
                    c.op->output_names.empty() ? nullptr : &class_of_results(*c.op));
}

}  // namespace weft::native
