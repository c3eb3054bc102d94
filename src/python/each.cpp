#include "python/each.h"

#include "ops/each.h"
#include "ops/functions.h"
#include "python/parse.h"
#include "python/type.h"

namespace weft::python {
namespace {

using ops::EachInput;

/// One input of all calls: the same in each, or with sizes of its own in each.
struct Input {
    EachInput kind = EachInput::Shared;
    std::vector<Dims> sizes;
};

std::vector<Dims> sizes_of(PyObject* calls) {
    std::vector<Dims> out;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(calls); ++i) {
        Dims sizes;
        WEFT_EXPECT(to_dims(PySequence_Fast_GET_ITEM(calls, i), sizes), Type, "_each",
                    "sizes for each call", Py_TYPE(PySequence_Fast_GET_ITEM(calls, i))->tp_name);
        out.push_back(sizes);
    }
    return out;
}

/// Raises unless the sizes are those of the elements that are there.
void expect_whole(const std::vector<Input>& inputs, const std::vector<Tensor>& in, size_t calls) {
    for (size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i].kind == EachInput::Shared) continue;
        int64_t total = 0;
        for (const Dims& sizes : inputs[i].sizes) {
            int64_t n = 1;
            for (int64_t d : sizes) n *= d;
            total += n;
        }
        WEFT_EXPECT(inputs[i].sizes.size() == calls && total == in[i].numel(), Runtime, "_each",
                    text(in[i].numel(), " elements of ", calls, " calls"),
                    text(total, " of ", inputs[i].sizes.size()));
    }
}

/// The calls, laid out one by one: their words, with the head.
class Layouts {
public:
    Layouts(const Op& op, const Call& given, const std::vector<Input>& inputs)
        : op_(op), given_(given), inputs_(inputs) {}

    std::vector<int64_t> words(size_t calls) {
        std::vector<int64_t> own, out;
        std::vector<DType> dtypes;
        for (size_t call = 0; call < calls; ++call) append(own, call, dtypes);
        std::vector<EachInput> kinds;
        for (const Input& input : inputs_) kinds.push_back(input.kind);
        ops::append_head(out, static_cast<int64_t>(calls), kinds, dtypes, {});
        out.insert(out.end(), own.begin(), own.end());
        return out;
    }

private:
    void append(std::vector<int64_t>& words, size_t call, std::vector<DType>& dtypes) {
        std::vector<Tensor> in(given_.in, given_.in + given_.inputs);
        for (size_t i = 0; i < in.size(); ++i) {
            if (inputs_[i].kind == EachInput::Shared) continue;
            in[i] = Tensor::layout(in[i].dtype(), inputs_[i].sizes[call]);
            in[i].set(kTracked, given_.in[i].has(kTracked));  // shape rules may ask
            ops::append_shape(words, inputs_[i].sizes[call]);
        }
        Call one(op_, in.data(), given_.inputs, given_.attrs);
        op_.shape(one);
        for (size_t i = 0; i < in.size(); ++i)
            if (inputs_[i].kind != EachInput::Shared) in[i].set(kTracked, false);
        dtypes.clear();
        for (int k = 0; k < one.outputs; ++k) {
            dtypes.push_back(one.out(k).dtype());
            ops::append_shape(words, one.out(k).shape());
        }
    }

    const Op& op_;
    const Call& given_;
    const std::vector<Input>& inputs_;
};

/// _each(sizes, name, *args, **kwargs): the op `name` over several calls; its outputs, 1-d, in a tuple.
///
/// `sizes` has an item for each input of the op: None for one that is the same in each call, or a
/// list of what sizes it has in each, whose elements `args` has one after the other.
PyObject* each(PyObject*, PyObject* const* args, Py_ssize_t count, PyObject* kwnames) {
    return guarded([&] {
        WEFT_EXPECT(count >= 2 && PyList_Check(args[0]) && PyUnicode_Check(args[1]), Type, "_each",
                    "a list of sizes and the name of an op", "other arguments");
        const Op& op = table().at(to_text(args[1]));
        WEFT_EXPECT(ops::has_each(op), Runtime, "_each", "an op that runs by parts", op.name);
        Arguments arguments(Arguments::Explain::Yes);
        WEFT_EXPECT(arguments.parse(op, args + 2, count - 2, kwnames, 0), Type, op.name,
                    "arguments that fit", arguments.reason());
        Call given(op);
        arguments.fill(given);
        WEFT_EXPECT(PyList_GET_SIZE(args[0]) == given.inputs, Type, "_each", "sizes of each input",
                    std::to_string(PyList_GET_SIZE(args[0])));
        std::vector<Input> inputs(static_cast<size_t>(given.inputs));
        std::vector<Tensor> in(given.in, given.in + given.inputs);
        size_t calls = 0;
        for (size_t i = 0; i < inputs.size(); ++i) {
            PyObject* sizes = PyList_GET_ITEM(args[0], static_cast<Py_ssize_t>(i));
            if (sizes == Py_None) continue;
            WEFT_EXPECT(PyList_Check(sizes) || PyTuple_Check(sizes), Type, "_each",
                        "a list of sizes", Py_TYPE(sizes)->tp_name);
            inputs[i] = {EachInput::Own, sizes_of(sizes)};
            calls = inputs[i].sizes.size();
            in[i] = ops::reshape(in[i], Dims{-1});
        }
        expect_whole(inputs, in, calls);
        std::vector<Value> attrs(given.attrs, given.attrs + op.defaults.size());
        attrs.emplace_back(DimSpan(Layouts(op, given, inputs).words(calls)));
        Call all(ops::each_of(op), in.data(), given.inputs, attrs.data());
        ops::call(all);
        Object out = Object::take(PyTuple_New(all.outputs));
        for (int k = 0; k < all.outputs; ++k)
            PyTuple_SET_ITEM(out.get(), k, checked(wrap(std::move(all.out(k)))));
        return out.release();
    });
}

PyMethodDef each_functions[] = {{"_each", c_function(each), METH_FASTCALL | METH_KEYWORDS, nullptr},
                                {}};

}  // namespace

void init_each(PyObject* module) { checked(PyModule_AddFunctions(module, each_functions)); }

}  // namespace weft::python
