/// What programs call beside their own functions: ops by public name, builtins, methods, modes.
#pragma once
#include <span>

#include "native/errors.h"
#include "ops/table.h"

namespace weft::native {

class Host;

/// The records of one public name. Lives as long as the process.
struct Ops {
    std::string name;
    std::vector<const Op*> overloads;
    bool in_place = false;
    int32_t version = 1;  ///< Note [Versions]
};
/// `weft._C.name`: a function, or "ops.name", "Tensor.name". Null if there is none that packages may call.
const Ops* ops_named(std::string_view name);
/// The same as files of a version have it, from 1 to today's.
const Ops* ops_named(std::string_view name, int64_t version);
/// Whether weft has an op of that name that packages may not call.
bool is_internal_op(std::string_view name);

/// The arguments of a call.
struct Given {
    const Raw* args;
    int64_t n;                              ///< by place
    const std::vector<std::string>* names;  ///< of those behind; null: none
    int64_t words() const { return names ? static_cast<int64_t>(names->size()) : 0; }
};

/// What a method of tensors that is no op comes to, for who writes calls down.
enum class Comes : uint8_t {
    Values,  ///< anything
    Layout,  ///< what dtype, sizes and strides say
    Same,    ///< a new tensor of the same memory, outside of the graph of gradients
    Self,    ///< the tensor itself, of which gradients alone are told something
};

struct Builtin {
    std::string_view name;
    int8_t least, most;                 ///< how many by place; -1: any
    std::string_view words;             ///< names that it takes, with spaces around each; "*": any
    Thing (*run)(Host&, const Given&);  ///< null: an op of a library, Context::library runs it
    bool method = false;                ///< its first argument stands before the name
    Comes to = Comes::Values;
};
/// That of a table with a name; null if there is none.
inline const Builtin* named(std::span<const Builtin> table, std::string_view name) {
    for (const Builtin& b : table)
        if (b.name == name) return &b;
    return nullptr;
}
const Builtin* builtin_named(std::string_view name);
const Builtin* math_named(std::string_view name);
/// A call of one, with its arguments checked.
Thing run_builtin(Host& host, const Builtin& builtin, const Given& given);
/// The argument of a name; empty if it is not given.
Raw word(const Given& given, std::string_view name);

/// A method of what is no record; null if its kind has none of this name.
const Builtin* method_named(Raw self, std::string_view name);
const Builtin* text_method_named(std::string_view name);
/// Those that any kind has, ops left out.
std::vector<std::string_view> method_names();
std::vector<std::string_view> text_method_names();
/// The methods of tensors, ops left out.
std::vector<const Builtin*> tensor_methods();

Thing make_named(const Class& of, const Given& given);
/// The number that a text is, as float() reads it.
double double_of_text(const std::string& text);
void sort_list(Raw list, bool reverse);
/// int(…), list(…), ValueError(…)
Thing construct(Host& host, const Type& type, const Given& given);

/// no_grad and the like: what becomes of `mode` in its scope.
struct Mode {
    std::string_view name;
    uint32_t (*changed)(uint32_t mode);
};
const Mode* mode_named(std::string_view name);

}  // namespace weft::native
