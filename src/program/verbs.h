/// The instructions of programs: what the front end lowers functions to (weft/frontend/ir.py; what each
/// means is written down plainest in tests/frontend/evaluate.py), and what regions become in flat code.
#pragma once
#include <cstdint>
#include <string_view>

namespace weft::program {

// name in the front end, enumerator
#define WEFT_PROGRAM_VERBS(X)                                                                      \
    X("move", Move)                                                                                \
    X("outer", Outer)                                                                              \
    X("delete", Delete)                                                                            \
    X("global", Global)                                                                            \
    X("cell", Cell)                                                                                \
    X("free", Free)                                                                                \
    X("set_cell", SetCell)                                                                         \
    X("new_cell", NewCell)                                                                         \
    X("attr", Attr)                                                                                \
    X("lookup", Lookup)                                                                            \
    X("set_attr", SetAttr)                                                                         \
    X("del_attr", DelAttr)                                                                         \
    X("item", Get)                                                                                 \
    X("set_item", SetGet)                                                                          \
    X("del_item", DelGet)                                                                          \
    X("slice", Slice)                                                                              \
    X("binary", Binary)                                                                            \
    X("inplace", Inplace)                                                                          \
    X("unary", Unary)                                                                              \
    X("compare", Compare)                                                                          \
    X("tuple", Tuple)                                                                              \
    X("list", List)                                                                                \
    X("set", Set)                                                                                  \
    X("dict", Dict)                                                                                \
    X("extend", Extend)                                                                            \
    X("update", Update)                                                                            \
    X("merge", Merge)                                                                              \
    X("insert", Insert)                                                                            \
    X("append", Append)                                                                            \
    X("add", Add)                                                                                  \
    X("put", Put)                                                                                  \
    X("to_tuple", ToTuple)                                                                         \
    X("format", Format)                                                                            \
    X("join", Join)                                                                                \
    X("unpack", Unpack)                                                                            \
    X("call", Call)                                                                                \
    X("call_ex", CallEx)                                                                           \
    X("method", Method)                                                                            \
    X("super", Super)                                                                              \
    X("iter", Iter)                                                                                \
    X("function", MakeFunction)                                                                    \
    X("import", Import)                                                                            \
    X("import_from", ImportFrom)                                                                   \
    X("raise", Raise)                                                                              \
    X("reraise", Reraise)                                                                          \
    X("match", Match)                                                                              \
    X("return", Return)                                                                            \
    /* with regions: */                                                                            \
    X("break", Break)                                                                              \
    X("continue", Continue)                                                                        \
    X("assert", Assert)                                                                            \
    X("if", If)                                                                                    \
    X("while", While)                                                                              \
    X("for", For)                                                                                  \
    X("with", With)                                                                                \
    X("try", Try)                                                                                  \
    /* of flat code: */                                                                            \
    X("jump", Jump)                                                                                \
    X("jump_if_false", JumpIfFalse)                                                                \
    X("next", Next)                                                                                \
    X("clear", Clear)                                                                              \
    X("catch", Catch)                                                                              \
    X("uncatch", Uncatch)                                                                          \
    X("rethrow", Rethrow)                                                                          \
    X("unwind", Unwind)                                                                            \
    X("enter", Enter)                                                                              \
    X("exit", Exit)                                                                                \
    X("exit_error", ExitError)                                                                     \
    X("fail", Fail)

enum class Verb : uint8_t {
#define X(name, id) id,
    WEFT_PROGRAM_VERBS(X)
#undef X
};

constexpr std::string_view kVerbNames[] = {
#define X(name, id) name,
    WEFT_PROGRAM_VERBS(X)
#undef X
};
constexpr int kVerbs = sizeof(kVerbNames) / sizeof(kVerbNames[0]);

/// The verb of a name; -1 if there is none.
constexpr int verb_named(std::string_view name) {
    for (int k = 0; k < kVerbs; ++k)
        if (kVerbNames[k] == name) return k;
    return -1;
}

/// What `binary`, `inplace`, `unary`, `compare` and `format` do, by their place here.
constexpr std::string_view kBinary[] = {"+", "-", "*", "/", "//", "%", "**",
                                        "@", "&", "|", "^", "<<", ">>"};
constexpr std::string_view kUnary[] = {"-", "+", "~", "not"};
constexpr std::string_view kCompare[] = {"<",  "<=", "==",     "!=", ">",
                                         ">=", "is", "is not", "in", "not in"};
constexpr std::string_view kConvert[] = {"", "r", "s", "a"};

}  // namespace weft::program
