#include "native/context.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "native/stretch.h"

namespace weft::native {
namespace {

double number_of(const Json& json) {
    if (!json.is(Json::Kind::Text)) return json.as_double();
    if (json.as_text() == "nan") return std::numeric_limits<double>::quiet_NaN();
    const double inf = std::numeric_limits<double>::infinity();
    return json.as_text() == "inf" ? inf : -inf;
}

}  // namespace

Context::Context(std::shared_ptr<const Package> package,
                 FunctionRef<Tensor(const std::string&)> lookup)
    : print([](std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }),
      warn([](std::string_view text) {
          std::fprintf(stderr, "Warning: %.*s\n", static_cast<int>(text.size()), text.data());
      }),
      package_(std::move(package)) {
    const char* setting = std::getenv("WEFT_COMPILE");
    by_plan = !setting || std::string_view(setting) != "0";
    for (const std::string& name : package_->tensors()) tensors_[name] = Thing(lookup(name));
    for (const Package::Instance& object : package_->objects())
        objects_.push_back(make_thing<Record>(object.of));
    for (size_t k = 0; k < objects_.size(); ++k)
        for (size_t i = 0; i < package_->objects()[k].fields.size(); ++i)
            objects_[k].as<Record>()->fields[i] = make(package_->objects()[k].fields[i]).release();
    for (const Function& f : package_->functions()) {
        State& s = states_.emplace_back();
        s.code = f.code;
        s.add_place(0);
        for (const Json& c : f.constants) s.constants.push_back(make(c).release());
        s.defaults.assign(f.params.size(), Raw());
        for (const auto& [k, value] : f.defaults)
            s.defaults[static_cast<size_t>(k)] = make(value).release();
    }
}

Context::~Context() {
    // objects may hold each other
    for (Thing& object : objects_)
        for (Raw& value : object.as<Record>()->fields)
            if (const Raw old = std::exchange(value, Raw())) old.drop();
    for (State& s : states_) {
        for (Raw r : s.constants) r.drop();
        for (Raw r : s.defaults)
            if (r) r.drop();
    }
}

Thing Context::make(const Json& c) {
    switch (c.kind()) {
        case Json::Kind::Null:
            return none();
        case Json::Kind::Bool:
            return of_bool(c.as_bool());
        case Json::Kind::Int:
            return of_int(c.as_int());
        case Json::Kind::Text:
            return of_text(c.as_text());
        default:
            break;
    }
    const auto& [kind, value] = c.map()[0];
    auto items = [&] {
        std::vector<Thing> out;
        for (const Json& item : value.list()) out.push_back(make(item));
        return out;
    };
    if (kind == "float") return of_double(number_of(value));
    if (kind == "complex")
        return of_complex({number_of(value.list()[0]), number_of(value.list()[1])});
    if (kind == "tuple") return tuple_of(items());
    if (kind == "size") return tuple_of(items(), &size_class());
    if (kind == "list") return list_of(items());
    if (kind == "dict" || kind == "set" || kind == "frozenset") {
        const bool set = kind != "dict";
        Thing out = set ? new_set(kind == "frozenset") : new_dict();
        for (const Json& item : value.list())
            if (set) out.as<Dict>()->set(make(item).get(), Raw());
            else out.as<Dict>()->set(make(item.list()[0]).get(), make(item.list()[1]).get());
        return out;
    }
    if (kind == "slice") {
        const std::vector<Thing> parts = items();
        return make_thing<Slice>(parts[0].get(), parts[1].get(), parts[2].get());
    }
    if (kind == "range") {
        const auto& r = value.list();
        return make_thing<Range>(r[0].as_int(), r[1].as_int(), r[2].as_int());
    }
    return make_named_constant(kind, value);
}

Thing Context::make_named_constant(const std::string& kind, const Json& value) {
    auto lasting = [](Kind k, const void* p) { return Thing::steal(Raw::lasting(k, p)); };
    if (kind == "ellipsis") return Thing::steal(Raw::immediate(Kind::Ellipsis));
    if (kind == "function")
        return lasting(Kind::Function, &package_->functions()[static_cast<size_t>(value.as_int())]);
    if (kind == "object") return objects_[static_cast<size_t>(value.as_int())];
    if (kind == "record") return lasting(Kind::Class, &class_like(class_told(value)));
    const std::string& name = value.as_text();
    if (kind == "tensor") return tensors_[name];
    if (kind == "op") return lasting(Kind::Ops, package_->ops(name));
    if (kind == "library") return lasting(Kind::Builtin, package_->library(name));
    if (const Builtin* builtin = builtin_named(name); builtin && kind == "builtin")
        return lasting(Kind::Builtin, builtin);
    if (kind == "type" || kind == "builtin") return lasting(Kind::Type, type_named(name));
    if (kind == "mode") return lasting(Kind::Mode, mode_named(name));
    DType t = DType::Float32;
    dtype_named(name, t);
    return Thing::steal(Raw::immediate(Kind::DType, static_cast<uint64_t>(t)));
}

Thing Context::field(size_t object, const std::string& name) const {
    if (object >= objects_.size()) return {};
    const Raw found = objects_[object].as<Record>()->find(name);
    return found ? Thing::borrow(found) : Thing();
}

void Context::set_field(size_t object, const std::string& name, const Thing& value) {
    WEFT_EXPECT(field(object, name), Value, "package", "an attribute of an object of the package",
                text("'", name, "' of number ", object));
    objects_[object].as<Record>()->set(name, value.get());
}

const Class& Context::class_like(const Class& of) {
    for (const auto& c : package_->classes())
        if (*c == of) return *c;
    for (const auto& c : own_classes_)
        if (*c == of) return *c;
    return *own_classes_.emplace_back(std::make_unique<Class>(of));
}

Thing Context::call(const Function& function, const Given& given) {
    Host host(*this);
    // a scope that an exception left as it was found
    const ModeGuard as_before(0, 0);
    return host.call(function, given);
}

}  // namespace weft::native
