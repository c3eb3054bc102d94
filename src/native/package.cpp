/// Reading guide: `PackageReader::run` reads the sections; each checks what it reads.
#include "native/package.h"

#include <algorithm>
#include <functional>

#include "native/callables.h"
#include "program/text.h"

namespace weft::native {

using program::Verb;

int32_t Function::line_of(int32_t offset) const {
    auto at = std::upper_bound(lines.begin(), lines.end(), offset,
                               [](int32_t o, const auto& line) { return o < line.first; });
    return at == lines.begin() ? 0 : std::prev(at)->second;
}

int64_t Class::field(std::string_view wanted) const {
    const auto found = std::ranges::find(fields, wanted);
    return found == fields.end() ? -1 : found - fields.begin();
}

Class class_told(const Json& record) {
    auto holds = [&](std::string_view name) {
        const Json* found = record.find(name);
        return found && found->as_bool();
    };
    Class out{record.find("class")->as_text()};
    out.is_tuple = holds("tuple");
    out.is_data = holds("data");
    out.is_itself = holds("itself");
    out.is_opaque = holds("opaque");
    out.unhashable = holds("unhashable");
    auto names = [&](std::string_view key, std::vector<std::string>& to) {
        if (const Json* found = record.find(key))
            for (const Json& field : found->list()) to.push_back(field.as_text());
    };
    names("fields", out.fields);
    names("uncompared", out.uncompared);
    names("unshown", out.unshown);
    if (const Json* found = record.find("qualname")) out.qualname = found->as_text();
    return out;
}

const Class& size_class() {
    static const Class made{"torch.Size", {}, true};
    return made;
}

const Class& bytes_class() {
    static const Class made{"bytes", {}, true};
    return made;
}

Thing bytes_of(std::string_view bytes) {
    Thing out = new_tuple(std::ssize(bytes), &bytes_class());
    for (size_t k = 0; k < bytes.size(); ++k)
        out.as<Tuple>()->items()[k] = Raw::small(static_cast<unsigned char>(bytes[k]));
    return out;
}

std::string bytes_in(Raw tuple) {
    std::string bytes;
    for (Raw item : items_in(tuple)) bytes += static_cast<char>(int_in(item));
    return bytes;
}

const Class& class_of_results(const Op& op) {
    static const auto* const made = [] {
        auto* all = new std::map<const Op*, Class>;
        for (const Op& one : table().all()) {
            if (!one.output_names.empty())
                (*all)[&one] = {"torch.return_types." + one.public_name, one.output_names, true};
        }
        return all;
    }();
    return made->at(&op);
}

const Function& Package::entry(std::string_view name) const {
    for (const auto& [entry, function] : entries_)
        if (entry == name) return functions_[static_cast<size_t>(function)];
    std::string names;
    for (const auto& [entry, function] : entries_) names += (names.empty() ? "" : ", ") + entry;
    fail(ErrorKind::Value, "package", "one of the entries " + names, name);
}

const Ops* Package::ops(std::string_view name) const {
    if (!older_.empty())
        if (const auto found = older_.find(name); found != older_.end()) return found->second;
    return ops_named(name);
}

const Builtin* Package::library(std::string_view name) const {
    return &libraries_.find(name)->second;
}

class PackageReader {
public:
    PackageReader(const Json& json, FunctionRef<bool(const std::string&)> has_tensor,
                  FunctionRef<bool(const std::string&)> has_library)
        : json_(json), has_tensor_(has_tensor), has_library_(has_library),
          made_(std::make_shared<Package>()) {}

    std::shared_ptr<const Package> run() {
        expect(json_.is(Json::Kind::Map), "a map", "another value");
        constexpr std::string_view known[] = {"weft",    "ops",     "functions",
                                              "entries", "objects", "tensors"};
        for (const auto& [key, value] : json_.map())
            expect(std::ranges::find(known, key) != std::end(known), "known sections", key);
        const int64_t version = integer(json_, "weft", "package");
        expect(version == 1, "version 1 of the format", std::to_string(version));
        const std::vector<Json>& functions = list(json_, "functions", "package");
        made_->functions_.resize(functions.size());
        for (const Json& name : optional_list(json_, "tensors", "package"))
            made_->tensors_.push_back(tensor(name));
        tensors_.insert(made_->tensors_.begin(), made_->tensors_.end());
        ops();
        objects();
        for (size_t k = 0; k < functions.size(); ++k) {
            made_->functions_[k].number = static_cast<int32_t>(k);
            function(functions[k], made_->functions_[k]);
        }
        entries();
        return std::move(made_);
    }

private:
    void expect(bool holds, std::string_view wanted, std::string_view got) const {
        if (!holds) refuse(wanted, got);
    }
    /// For what is asked of every number in a file: the texts are made where it fails.
    [[noreturn]] void refuse(std::string_view wanted, std::string_view got) const {
        fail(ErrorKind::Value, where_.empty() ? "package" : "package: " + where_, wanted, got);
    }

    // ---- parts of JSON

    const Json& at(const Json& map, std::string_view key, std::string_view of) const {
        if (!map.is(Json::Kind::Map)) refuse(text("a map for ", of), "another value");
        const Json* found = map.find(key);
        if (!found) refuse(text("'", key, "' in ", of), "none");
        return *found;
    }
    const std::string& texts(const Json& json, std::string_view what) const {
        if (!json.is(Json::Kind::Text)) refuse(text("a text for ", what), "another value");
        return json.as_text();
    }
    const std::string& string(const Json& map, std::string_view key, std::string_view of) const {
        return texts(at(map, key, of), key);
    }
    int64_t integer(const Json& map, std::string_view key, std::string_view of) const {
        const Json& found = at(map, key, of);
        if (!found.is(Json::Kind::Int)) refuse(text("an integer for '", key, "'"), "another value");
        return found.as_int();
    }
    const std::vector<Json>& as_list(const Json& json, std::string_view what) const {
        if (!json.is(Json::Kind::List)) refuse(text("a list for ", what), "another value");
        return json.list();
    }
    const std::vector<Json>& list(const Json& map, std::string_view key,
                                  std::string_view of) const {
        return as_list(at(map, key, of), key);
    }
    const std::vector<Json>& optional_list(const Json& map, std::string_view key,
                                           std::string_view of) const {
        static const std::vector<Json> none;
        return map.find(key) ? list(map, key, of) : none;
    }
    const std::vector<Json::Member>& optional_map(const Json& map, std::string_view key) const {
        static const std::vector<Json::Member> none;
        const Json* found = map.find(key);
        if (!found) return none;
        if (!found->is(Json::Kind::Map)) refuse(text("a map for '", key, "'"), "another value");
        return found->map();
    }
    int32_t number_below(const Json& json, size_t size, std::string_view what) const {
        const bool whole = json.is(Json::Kind::Int);
        if (!whole || json.as_int() < 0 || static_cast<uint64_t>(json.as_int()) >= size)
            refuse(text("the number of ", what, ", of which there are ", size),
                   whole ? std::to_string(json.as_int()) : "another value");
        return static_cast<int32_t>(json.as_int());
    }
    int32_t function_number(const Json& json) const {
        return number_below(json, made_->functions_.size(), "a function");
    }

    const std::string& tensor(const Json& name) const {
        const std::string& t = texts(name, "a tensor");
        expect(has_tensor_(t), "tensors that are there", t);
        return t;
    }

    // ---- sections

    void ops() {
        for (const auto& [name, version] : optional_map(json_, "ops")) {
            const Ops* found = op(name);
            expect(version.is(Json::Kind::Int) && version.as_int() >= 1, "a version of an op",
                   "another value");
            const int64_t number = version.as_int();
            if (number > found->version)
                refuse(text("version ", found->version, " of '", name, "' or older"),
                       text("version ", number, ", of a newer weft"));
            if (number < found->version) made_->older_[name] = ops_named(name, number);
        }
    }
    const Ops* op(std::string_view name) const {
        const Ops* found = ops_named(name);
        if (!found)
            refuse(is_internal_op(name) ? "ops that programs may call" : "ops of this weft",
                   text("'", name, "'"));
        return found;
    }

    void objects() {
        const std::vector<Json>& all = optional_list(json_, "objects", "package");
        made_->objects_.resize(all.size());
        for (size_t k = 0; k < all.size(); ++k) {
            where_ = text("object ", k);
            Class c{string(all[k], "class", "an object"), {}};
            for (const auto& [name, value] : optional_map(all[k], "fields")) {
                c.fields.push_back(name);
                made_->objects_[k].fields.push_back(constant(value));
            }
            made_->objects_[k].of = &class_like(std::move(c));
        }
        where_.clear();
    }

    void entries() {
        for (const auto& [name, function] : optional_map(json_, "entries"))
            made_->entries_.emplace_back(name, function_number(function));
        expect(!made_->entries_.empty(), "an entry", "none");
    }

    // ---- functions

    void function(const Json& json, Function& f) {
        where_ = f.name = string(json, "name", "a function");
        f.file = string(json, "file", "a function");
        const std::string& written = string(json, "text", "a function");
        // what is live where is a bit for each register and instruction
        const auto lines_in = static_cast<size_t>(std::ranges::count(written, '\n'));
        const size_t second = written.find('\n');
        const size_t names_in = written.find('\n', second + 1) - second;
        expect(lines_in < 2 || lines_in * names_in < size_t{1} << 29, "functions of a usual size",
               text(lines_in, " lines"));
        program::Facts facts{.scopes_pass = true};  // they are modes
        for (const Json& one : list(json, "constants", "a function")) {
            f.constants.push_back(constant(one));
            facts.is_true.push_back(one.is(Json::Kind::Bool) && one.as_bool());
        }
        try {
            f.source = program::parse(written, facts);
        } catch (const weft::Error& e) {
            throw weft::Error(ErrorKind::Value, text("[package: ", where_, "] ", e.what()));
        }
        expect(static_cast<size_t>(f.source.consts) == f.constants.size(),
               text(f.source.consts, " constants"), std::to_string(f.constants.size()));
        names(json, f);
        signature(json, f);
        expect(f.source.cells.empty(), "no cells", f.source.cells.empty() ? "" : f.source.cells[0]);
        lines(json, f);
        region(f.source.body, f);
        f.code = program::flatten(f.source);
        where_.clear();
    }

    void names(const Json& json, Function& f) const {
        for (const Json& one : list(json, "names", "a function")) {
            std::vector<std::string>& words = f.names.emplace_back();
            if (one.is(Json::Kind::Text)) words.push_back(one.as_text());
            else
                for (const Json& word : as_list(one, "names"))
                    words.push_back(texts(word, "a name"));
        }
        expect(static_cast<size_t>(f.source.attrs) == f.names.size(),
               text(f.source.attrs, " names"), std::to_string(f.names.size()));
    }

    void signature(const Json& json, Function& f) {
        for (const Json& one : list(json, "params", "a function")) {
            std::string name = texts(one, "a parameter");
            const bool words = name.starts_with("**"), rest = !words && name.starts_with("*");
            expect(!f.has_kwargs && !(rest && f.has_args) && (words || !f.has_args || !rest),
                   "*args and **kwargs last", name);
            expect(words || rest || !f.has_args, "*args and **kwargs last", name);
            f.has_args |= rest;
            f.has_kwargs |= words;
            name.erase(0, words ? 2 : rest ? 1 : 0);
            f.params.push_back(std::move(name));
        }
        const auto n = static_cast<int32_t>(f.params.size());
        expect(n == f.source.params, text(f.source.params, " parameters"), std::to_string(n));
        for (int32_t k = 0; k < n; ++k)
            expect(f.source.registers[static_cast<size_t>(k)] == f.params[static_cast<size_t>(k)],
                   "parameters by the names of their registers", f.params[static_cast<size_t>(k)]);
        const int32_t by_name = n - f.has_args - f.has_kwargs;
        if (const Json* k = json.find("keyword_only"))
            f.keyword_only = number_below(*k, static_cast<size_t>(by_name) + 1, "parameters");
        f.positional = by_name - f.keyword_only;
        for (const auto& [name, value] : optional_map(json, "defaults")) {
            const auto found = std::find(f.params.begin(), f.params.begin() + by_name, name);
            expect(found != f.params.begin() + by_name, "defaults of parameters", name);
            f.defaults.emplace_back(static_cast<int32_t>(found - f.params.begin()),
                                    constant(value));
        }
    }

    void lines(const Json& json, Function& f) const {
        constexpr size_t kMost = size_t{1} << 31;
        for (const Json& one : optional_list(json, "lines", "a function")) {
            const std::vector<Json>& pair = as_list(one, "a line");
            if (pair.size() != 2) refuse("an offset and a line", text(pair.size()));
            const int32_t offset = number_below(pair[0], kMost, "offsets");
            if (!f.lines.empty() && f.lines.back().first >= offset)
                refuse("offsets in order", text(offset));
            f.lines.emplace_back(offset, number_below(pair[1], kMost, "lines"));
        }
    }

    void region(const program::Region& body, const Function& f) const {
        for (const program::Instruction& i : body) {
            const bool python = i.verb == Verb::Global || i.verb == Verb::Import ||
                                i.verb == Verb::ImportFrom || i.verb == Verb::Super ||
                                i.verb == Verb::MakeFunction;
            expect(!python, "verbs that need no Python",
                   program::kVerbNames[static_cast<size_t>(i.verb)]);
            const bool named = i.attr >= 0 && i.verb != Verb::Import;
            expect(!named || f.names[static_cast<size_t>(i.attr)].size() == 1, "one name",
                   "another number of them");
            if (i.names >= 0)
                expect(f.names[static_cast<size_t>(i.names)].size() + 1 <= i.operands.size(),
                       "an operand for each name", "less");
            for (const program::Region& r : i.regions) region(r, f);
        }
    }

    // ---- constants

    /// The constant itself, once all in it is there.
    const Json& constant(const Json& c) {
        const bool map = c.is(Json::Kind::Map);
        expect(!c.is(Json::Kind::List) && !c.is(Json::Kind::Float) && (!map || c.map().size() == 1),
               "a constant", "another value");
        if (!map) return c;
        const auto& [kind, value] = c.map()[0];
        if (kind == "tuple" || kind == "list" || kind == "set" || kind == "frozenset" ||
            kind == "size") {
            for (const Json& item : as_list(value, kind)) {
                expect(kind != "size" || item.is(Json::Kind::Int), "integers of a size", "others");
                constant(item);
            }
        } else if (kind == "dict") {
            for (const Json& pair : as_list(value, kind)) {
                expect(as_list(pair, "an item").size() == 2, "a key and a value", "others");
                constant(pair.list()[0]);
                constant(pair.list()[1]);
            }
        } else if (kind == "range") {
            bool whole = as_list(value, kind).size() == 3 && value.list()[2].is(Json::Kind::Int) &&
                         value.list()[2].as_int() != 0;
            for (const Json& part : value.list()) whole &= part.is(Json::Kind::Int);
            expect(whole, "three integers of a range", "others");
        } else if (kind == "slice") {
            expect(as_list(value, kind).size() == 3, "three parts of a slice", "others");
            for (const Json& part : value.list()) constant(part);
        } else {
            named(kind, value);
        }
        return c;
    }

    void named(const std::string& kind, const Json& value) {
        auto known = [&](bool is) {
            if (!is) refuse(text("a known ", kind), shown(value));
        };
        auto number = [](const Json& j) {
            constexpr std::string_view words[] = {"nan", "inf", "-inf"};
            return j.is(Json::Kind::Int) || j.is(Json::Kind::Float) ||
                   (j.is(Json::Kind::Text) &&
                    std::ranges::find(words, j.as_text()) != std::end(words));
        };
        if (kind == "float") return known(number(value));
        if (kind == "complex")
            return known(value.is(Json::Kind::List) && value.list().size() == 2 &&
                         number(value.list()[0]) && number(value.list()[1]));
        if (kind == "ellipsis") return;
        if (kind == "function") return static_cast<void>(function_number(value));
        if (kind == "record") return record(value);
        if (kind == "object") {
            number_below(value, made_->objects_.size(), "an object");
            return;
        }
        const std::string& name = texts(value, kind);
        if (kind == "tensor") return known(tensors_.contains(name));
        if (kind == "op") return static_cast<void>(op(name));
        if (kind == "library") return library(name);
        if (kind == "builtin") return known(builtin_named(name) || type_named(name));
        if (kind == "type") return known(type_named(name));
        if (kind == "mode") return known(mode_named(name));
        DType t;
        if (kind == "dtype") return known(dtype_named(name, t));
        expect(false, "a known constant", kind);
    }
    void library(const std::string& name) {
        if (!has_library_(name))
            refuse("ops of libraries that this weft has (without Python it has none)",
                   text("'", name, "'. Hint: weft.jit.load runs such programs in Python"));
        Builtin& made = made_->libraries_[name];
        made = {made_->libraries_.find(name)->first, 0, -1, "*", nullptr};
    }
    void record(const Json& value) {
        string(value, "class", "a record");
        for (const Json& field : list(value, "fields", "a record")) texts(field, "a field");
        for (const char* some : {"uncompared", "unshown"})
            for (const Json& field : optional_list(value, some, "a record"))
                texts(field, "a field");
        for (const char* what : {"tuple", "data", "itself", "opaque", "unhashable"})
            flag(value, what, false);
        if (value.find("qualname")) string(value, "qualname", "a record");
        class_like(class_told(value));
    }
    const Class& class_like(Class c) {
        for (const auto& known : made_->classes_)
            if (*known == c) return *known;
        return *made_->classes_.emplace_back(std::make_unique<Class>(std::move(c)));
    }
    bool flag(const Json& map, std::string_view key, bool otherwise) const {
        const Json* found = map.find(key);
        if (!found) return otherwise;
        expect(found->is(Json::Kind::Bool), text("true or false for '", key, "'"), "another value");
        return found->as_bool();
    }
    static std::string shown(const Json& value) {
        return value.is(Json::Kind::Text) ? "'" + value.as_text() + "'" : "another value";
    }

    const Json& json_;
    FunctionRef<bool(const std::string&)> has_tensor_, has_library_;
    std::shared_ptr<Package> made_;
    std::set<std::string> tensors_;
    std::string where_;  ///< what is read
};

bool dtype_named(std::string_view wanted, DType& out) {
    for (const DType t : kDTypes)
        if (name(t) == wanted) {
            out = t;
            return true;
        }
    return false;
}

std::shared_ptr<const Package> Package::parse(std::string_view json,
                                              FunctionRef<bool(const std::string&)> has_tensor,
                                              FunctionRef<bool(const std::string&)> has_library) {
    const Json document = Json::parse(json);
    return PackageReader(document, has_tensor, has_library).run();
}

}  // namespace weft::native
