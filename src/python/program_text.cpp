/// Programs as text: what `weft.jit` shows of them, and the way there and back for the tests.
#include "program/text.h"

#include "program/verify.h"
#include "python/program.h"

namespace weft::python {
namespace {

const Program& program_for(PyObject* function) {
    if (!PyFunction_Check(function))
        throw Error(ErrorKind::Type, "[program] expected a function of Python, got " +
                                         std::string(Py_TYPE(function)->tp_name));
    const Known* known = known_of(function);
    WEFT_EXPECT(known->program, Value, "program", "a function that compiles",
                to_text(Object::take(PyObject_Repr(known->left.get())).get()));
    return *known->program;
}

std::string shown(PyObject* o) {
    Object text_of_program = Object::take(PyObject_Repr(o));
    std::string out(to_text(text_of_program.get()));
    if (out.size() > 40) out = out.substr(0, 37) + "...";
    for (char& c : out)
        if (c == '\n') c = ' ';
    return out;
}

/// Names, constants and the line.
std::string remark(const Program& p, const program::Instruction& i) {
    std::string out;
    auto add = [&](const std::string& more) { out += (out.empty() ? "" : " ") + more; };
    if (i.attr >= 0) add(std::string(to_text(p.attrs[static_cast<size_t>(i.attr)].get())));
    if (i.names >= 0) add(shown(p.attrs[static_cast<size_t>(i.names)].get()));
    for (int32_t o : i.operands)
        if (o < 0)
            add("#" + std::to_string(~o) + "=" + shown(p.consts[static_cast<size_t>(~o)].get()));
    if (i.offset < 0) return out;
    PyCodeObject* code = p.of;
    if (const int32_t number = i.offset >> kInlinedShift)
        code =
            reinterpret_cast<PyCodeObject*>(p.inlined[static_cast<size_t>(number) - 1].code.get());
    const int line = PyCode_Addr2Line(code, i.offset & ((1 << kInlinedShift) - 1));
    add("line " + std::to_string(line));
    return out;
}

/// _program_text(function): its instructions.
PyObject* text_of_program(PyObject*, PyObject* function) {
    return guarded([&] {
        const Program& p = program_for(function);
        const std::string out = program::to_text(
            p.function, [&](const program::Instruction& i) { return remark(p, i); });
        return py_str(out).release();
    });
}

/// _program_survives_text(function): whether its text reads back as what it was.
PyObject* survives(PyObject*, PyObject* function) {
    return guarded([&] {
        const program::Function& f = program_for(function).function;
        const program::Function again = program::parse(program::to_text(f));
        return PyBool_FromLong(again == f);
    });
}

/// _parse_program(text): the text of what it reads back as; raises where it is none, or none that can run.
PyObject* parse(PyObject*, PyObject* text_of_program) {
    return guarded([&] {
        return py_str(program::to_text(program::parse(to_text(text_of_program)))).release();
    });
}

PyMethodDef program_text_functions[] = {{"_program_text", text_of_program, METH_O, nullptr},
                                        {"_program_survives_text", survives, METH_O, nullptr},
                                        {"_parse_program", parse, METH_O, nullptr},
                                        {}};

}  // namespace

void init_program_text(PyObject* module) {
    checked(PyModule_AddFunctions(module, program_text_functions));
}

}  // namespace weft::python
