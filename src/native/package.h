/// Functions, constants and the names of tensors, as a file keeps them.
///
/// Note [Packages]
/// A package is JSON (docs in weft/export): functions in the text form of program/text.h with their constants and
/// names beside them. `Package::parse` checks all of it, is immutable and may be shared by threads; what runs it is a
/// Context, one for each thread. Refused are the verbs that ask Python (`global`, `import`, `super`) and
/// those of inner functions, which are resolved before.
///
/// Note [Libraries]
/// Ops that NumPy or SciPy compute are records in Python (weft/_library_ops.py), `{"library": "linalg_det"}` among the
/// constants of a package. Python runs them for its contexts (Context::library), and refuses what it has not; libweft
/// has none, so that it refuses a package with any as it is read. A stretch ends before a call of one.
#pragma once
#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "base/function_ref.h"
#include "native/callables.h"
#include "native/json.h"
#include "native/value.h"
#include "ops/table.h"
#include "program/code.h"

namespace weft::native {

struct Function {
    std::string name, file;
    program::Function source;
    program::Code code;
    std::vector<Json> constants;
    std::vector<std::vector<std::string>> names;  ///< one, or those of keyword arguments
    std::vector<std::string> params;              ///< without stars
    int32_t positional = 0, keyword_only = 0;
    bool has_args = false, has_kwargs = false;
    std::vector<std::pair<int32_t, Json>> defaults;  ///< by parameter
    std::vector<std::pair<int32_t, int32_t>> lines;  ///< from an offset on; the line
    int32_t number = 0;
    int32_t line_of(int32_t offset) const;
};

/// What has named fields: records, or with `is_tuple` tuples. Records with `is_data`, as dataclasses make, show their
/// fields, but for those of `unshown`, or with `is_opaque` none, as other objects; they are equal where their fields
/// are, but for those of `uncompared`; with `is_itself` only to themselves.
struct Class {
    std::string name;
    std::vector<std::string> fields = {};
    bool is_tuple = false, is_data = false, is_itself = false, is_opaque = false;
    bool unhashable = false;  ///< no key of a dict
    std::vector<std::string> uncompared = {}, unshown = {};
    std::string qualname = {};  ///< empty: the name
    bool compares(const std::string& name) const {
        return std::ranges::find(uncompared, name) == uncompared.end();
    }
    bool shows(const std::string& name) const {
        return std::ranges::find(unshown, name) == unshown.end();
    }
    const std::string& shown_name() const { return qualname.empty() ? name : qualname; }
    std::string short_name() const { return name.substr(name.rfind('.') + 1); }
    int64_t field(std::string_view name) const;  ///< -1: it has none
    bool operator==(const Class&) const = default;
};
/// The class of a constant that was looked at.
Class class_told(const Json& record);
bool dtype_named(std::string_view name, DType& out);
const Class& size_class();
const Class& bytes_class();  ///< bytes are tuples of ints
/// Of what is cut out of a tuple of this class, or goes on from one: that of a named tuple is a plain tuple.
inline const Class* class_of_parts(const Class* of) {
    return of == &size_class() || of == &bytes_class() ? of : nullptr;
}
inline bool is_bytes(Raw tuple) { return tuple.as<Tuple>()->of == &bytes_class(); }
Thing bytes_of(std::string_view bytes);
std::string bytes_in(Raw tuple);
const Class& class_of_results(const Op& op);

class Package {
public:
    /// Throws a ValueError that says what is wrong where. `has_tensor`: whether the file has one of a name;
    /// `has_library`: whether who runs the package has the op of a library of a name (Note [Libraries]).
    static std::shared_ptr<const Package> parse(std::string_view json,
                                                FunctionRef<bool(const std::string&)> has_tensor,
                                                FunctionRef<bool(const std::string&)> has_library);

    struct Instance {
        const Class* of;
        std::vector<Json> fields;
    };
    const std::vector<Function>& functions() const { return functions_; }
    /// Each once.
    const std::vector<std::unique_ptr<Class>>& classes() const { return classes_; }
    const std::vector<Instance>& objects() const { return objects_; }
    const std::vector<std::string>& tensors() const { return tensors_; }
    /// In the text's order: name and function.
    const std::vector<std::pair<std::string, int32_t>>& entries() const { return entries_; }
    /// The function of an entry. Throws a ValueError that names those there are.
    const Function& entry(std::string_view name) const;
    /// Ops by name, as the version has them that the file says. Null if there are none.
    const Ops* ops(std::string_view name) const;
    /// An op of a library that a constant names.
    const Builtin* library(std::string_view name) const;

private:
    friend class PackageReader;
    std::map<std::string, const Ops*, std::less<>>
        older_;  ///< of which the file has another version
    std::map<std::string, Builtin, std::less<>> libraries_;
    std::vector<Function> functions_;
    std::vector<std::unique_ptr<Class>> classes_;
    std::vector<Instance> objects_;
    std::vector<std::string> tensors_;
    std::vector<std::pair<std::string, int32_t>> entries_;
};

}  // namespace weft::native
