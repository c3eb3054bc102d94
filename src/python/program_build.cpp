/// From the front end's lists and tuples to a Program.
#include <algorithm>
#include <memory>
#include <string>

#include "program/verify.h"
#include "python/code_extra.h"
#include "python/program_place.h"

namespace weft::python {
namespace {

using program::Instruction;
using program::Region;
using program::Verb;

class Builder {
public:
    explicit Builder(PyObject* lowered) : lowered_(Object::borrow(lowered)) {}

    std::unique_ptr<Program> run() {
        Program& p = *made_;
        program::Function& f = p.function;
        Object code = lowered_.attr("code");
        WEFT_EXPECT(PyCode_Check(code.get()), Type, "program", "a function with a code object",
                    Py_TYPE(code.get())->tp_name);
        p.of = reinterpret_cast<PyCodeObject*>(code.get());
        f.name = std::string(to_text(lowered_.attr("name").get()));
        for (const Object& name : items(lowered_.attr("registers")))
            f.registers.emplace_back(to_text(name.get()));
        for (const char* kind : {"cells", "free"})
            for (const Object& name : items(lowered_.attr(kind)))
                f.cells.emplace_back(to_text(name.get()));
        f.own_cells = static_cast<int32_t>(items(lowered_.attr("cells")).size());
        p.consts = items(lowered_.attr("consts"));
        signature();
        inner();
        for (const Object& one : items(lowered_.attr("inlined")))
            p.inlined.push_back({one.attr("code"), number(one.attr("parent").get()),
                                 number(one.attr("offset").get())});
        f.body = region(lowered_.attr("body").get());
        f.consts = static_cast<int32_t>(p.consts.size());
        f.attrs = static_cast<int32_t>(p.attrs.size());
        p.cells = static_cast<int32_t>(f.cells.size());
        program::verify(f);
        p.code = program::flatten(f);
        slots();
        add_place(p, 0);
        return std::move(made_);
    }

private:
    static std::vector<Object> items(const Object& sequence) {
        Object tuple = Object::take(PySequence_Tuple(sequence.get()));
        std::vector<Object> out;
        for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(tuple.get()); ++k)
            out.push_back(Object::borrow(PyTuple_GET_ITEM(tuple.get(), k)));
        return out;
    }
    static int32_t number(PyObject* o) {
        return static_cast<int32_t>(checked_number(PyLong_AsLongLong(o)));
    }
    static long long checked_number(long long v) {
        if (v == -1 && PyErr_Occurred()) throw PythonError{};
        return v;
    }

    void signature() {
        Program& p = *made_;
        p.positional = p.of->co_argcount;
        p.positional_only = p.of->co_posonlyargcount;
        p.keyword_only = p.of->co_kwonlyargcount;
        p.has_args = p.of->co_flags & CO_VARARGS;
        p.has_kwargs = p.of->co_flags & CO_VARKEYWORDS;
        p.function.params = p.positional + p.keyword_only + p.has_args + p.has_kwargs;
    }

    /// CPython's order: variables, then cells that are no variables, then free ones.
    void slots() {
        Program& p = *made_;
        const auto& cells = p.function.cells;
        const auto& registers = p.function.registers;
        std::vector<std::string> seen;
        const Object code = lowered_.attr("code");
        for (const char* kind : {"co_varnames", "co_cellvars", "co_freevars"}) {
            for (const Object& one : items(code.attr(kind))) {
                const std::string name(to_text(one.get()));
                if (std::find(seen.begin(), seen.end(), name) != seen.end()) continue;
                seen.push_back(name);
                const auto cell = std::find(cells.begin(), cells.end(), name);
                const auto at = std::find(registers.begin(), registers.end(), name);
                p.slots.push_back(cell != cells.end()
                                      ? ~static_cast<int32_t>(cell - cells.begin())
                                      : static_cast<int32_t>(at - registers.begin()));
                WEFT_EXPECT(cell != cells.end() || at != registers.end(), Runtime, "program",
                            "a register for each variable", name);
            }
        }
    }

    void inner() {
        for (const Object& one : items(lowered_.attr("inner"))) {
            Program::Inner made{one.attr("code"), {}};
            for (const Object& name : items(one.attr("free")))
                made.cells.push_back(cell(to_text(name.get())));
            made_->inner.push_back(std::move(made));
        }
    }

    int32_t cell(std::string_view name) const {
        const auto& cells = made_->function.cells;
        for (size_t k = 0; k < cells.size(); ++k)
            if (cells[k] == name) return static_cast<int32_t>(k);
        WEFT_EXPECT(false, Runtime, "program", "a cell of the function", name);
        return -1;
    }

    int32_t attr(PyObject* o) {
        Object kept = Object::borrow(o);
        if (PyUnicode_CheckExact(o)) {
            PyObject* text = kept.release();
            PyUnicode_InternInPlace(&text);
            kept = Object::steal(text);
        }
        for (size_t k = 0; k < made_->attrs.size(); ++k)
            if (made_->attrs[k].get() == kept.get()) return static_cast<int32_t>(k);
        made_->attrs.push_back(std::move(kept));
        return static_cast<int32_t>(made_->attrs.size()) - 1;
    }
    /// Names of keyword arguments; -1 if there are none.
    int32_t names(PyObject* tuple) { return PyTuple_GET_SIZE(tuple) ? attr(tuple) : -1; }

    template <size_t N>
    static int32_t one_of(const std::string_view (&table)[N], PyObject* o) {
        const std::string_view text = to_text(o);
        for (size_t k = 0; k < N; ++k)
            if (table[k] == text) return static_cast<int32_t>(k);
        WEFT_EXPECT(false, Runtime, "program", "a known operator", text);
        return -1;
    }

    Region region(PyObject* list) {
        Region out;
        for (const Object& one : items(Object::borrow(list))) out.push_back(instruction(one.get()));
        return out;
    }

    static std::vector<int32_t> numbers(PyObject* sequence) {
        std::vector<int32_t> out;
        for (const Object& o : items(Object::borrow(sequence))) out.push_back(number(o.get()));
        return out;
    }

    Instruction instruction(PyObject* o) {
        // verb, outs, operands, attr, regions, offset
        auto field = [&](Py_ssize_t k) { return PyTuple_GET_ITEM(o, k); };
        const std::string_view name = to_text(field(0));
        const int verb = program::verb_named(name);
        WEFT_EXPECT(verb >= 0, Runtime, "program", "a known verb", name);
        Instruction i;
        i.verb = static_cast<Verb>(verb);
        i.outs = numbers(field(1));
        i.operands = numbers(field(2));
        i.offset = number(field(5));
        for (const Object& r : items(Object::borrow(field(4))))
            i.regions.push_back(region(r.get()));
        decode(i, field(3));
        return i;
    }

    void decode(Instruction& i, PyObject* a) {
        switch (i.verb) {
            case Verb::Global:
            case Verb::Attr:
            case Verb::Lookup:
            case Verb::SetAttr:
            case Verb::DelAttr:
            case Verb::ImportFrom:
                i.attr = attr(a);
                return;
            case Verb::Cell:
            case Verb::Free:
            case Verb::SetCell:
            case Verb::NewCell:
                i.sub = cell(to_text(a));
                i.attr = attr(a);
                return;
            case Verb::Binary:
            case Verb::Inplace:
                i.sub = one_of(program::kBinary, a);
                return;
            case Verb::Unary:
                i.sub = one_of(program::kUnary, a);
                return;
            case Verb::Compare:
                i.sub = one_of(program::kCompare, a);
                return;
            case Verb::Format:
                i.sub = one_of(program::kConvert, a);
                return;
            case Verb::Call:
                i.names = names(a);
                return;
            case Verb::Method:
                i.attr = attr(PyTuple_GET_ITEM(a, 0));
                i.names = names(PyTuple_GET_ITEM(a, 1));
                i.numbers = {number(PyTuple_GET_ITEM(a, 2))};
                return;
            case Verb::MakeFunction:
                i.sub = number(a);
                return;
            case Verb::Import:
                i.names = attr(a);
                return;
            case Verb::Unpack:
                if (a != Py_None) i.numbers = numbers(a);
                return;
            case Verb::Try:
                i.numbers = numbers(a);
                return;
            default:
                return;
        }
    }

    Object lowered_;
    std::unique_ptr<Program> made_ = std::make_unique<Program>();
};

Py_ssize_t program_index = -1;
PyObject* lowered_for;  ///< weft.frontend.programs.lowered_for

void free_known(void* p) { delete static_cast<Known*>(p); }

Known* learn(PyObject* function, PyObject* code) {
    if (!lowered_for) lowered_for = import_attr("weft.frontend.programs", "lowered_for").release();
    Object lowered =
        Object::take(into_python([&] { return PyObject_CallOneArg(lowered_for, function); }));
    auto known = std::make_unique<Known>();
    if (PyObject_HasAttrString(lowered.get(), "body"))
        known->program = build_program(lowered.get());
    else known->left = std::move(lowered);
    known->looks_at_frames = known->left && known->left.attr("looks_at_frames").get() == Py_True;
    void* again = nullptr;  // meanwhile another thread may have
    get_extra(code, program_index, &again);
    if (again) return static_cast<Known*>(again);
    checked(set_extra(code, program_index, known.get()));
    return known.release();
}

}  // namespace

std::unique_ptr<Program> build_program(PyObject* lowered) { return Builder(lowered).run(); }

Program::Program() = default;
Program::~Program() = default;

Known* known_of(PyObject* function) {
    PyObject* code = PyFunction_GET_CODE(function);
    void* known = nullptr;
    get_extra(code, program_index, &known);
    if (!known) [[unlikely]]
        known = learn(function, code);
    return static_cast<Known*>(known);
}

PyObject* place_of(const Frame& frame, int32_t pc, int32_t* offset) {
    const Program& p = *frame.program;
    int32_t at = p.code.instrs[static_cast<size_t>(pc)].offset;
    const int32_t number = at >= 0 ? at >> kInlinedShift : 0;
    *offset = at >= 0 ? at & ((1 << kInlinedShift) - 1) : 0;
    return number ? p.inlined[static_cast<size_t>(number) - 1].code.get()
                  : reinterpret_cast<PyObject*>(p.of);
}

void init_program_index() { program_index = request_extra_index(free_known); }

}  // namespace weft::python
