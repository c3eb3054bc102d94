/// Calls while a stretch is traced: of functions, of ops, of builtins.
#include <algorithm>

#include "native/package.h"
#include "native/tensors.h"
#include "native/trace.h"

namespace weft::native {

using program::FlatInstr;
using program::Refused;
using program::Verb;

namespace {

bool is_among(std::string_view name, std::string_view names) {
    return names.find(" " + std::string(name) + " ") != std::string_view::npos;
}

/// Methods of containers that change nothing, those that compare what is in them, and those that change what was made
/// here.
constexpr std::string_view kReaders = " items keys values get copy ";
constexpr std::string_view kSearchers = " index count ";
constexpr std::string_view kWriters =
    " append extend insert pop update setdefault add reverse clear ";
/// Builtins that put together what they are given, and those that look at it.
constexpr std::string_view kMakers = " zip enumerate reversed len ";
constexpr std::string_view kReckoners =
    " min max abs sum divmod round any all index pow is_tensor promote_types is_grad_enabled "
    "is_autocast_cpu_enabled get_default_dtype ord chr tensor ";

}  // namespace

/// The stretch may end here: at the instruction that comes next.
void TraceHost::mark() {
    mark_.pc = base_->pc;
    mark_.registers.clear();
    for (int32_t r = 0; r < base_->code->registers; ++r)
        mark_.registers.push_back(Thing::borrow(base_->registers[r]));
    mark_.steps = tracer_->steps();
    mark_.is_over = false;
}

Host::Frame* TraceHost::enter_function(Frame* frame, const Function& function, const Given& given) {
    if (open_.size() > kMostDepth) throw Refused{"it calls deeply"};
    for (const Frame* f : open_)  // it follows values
        if (f->function == &function) throw Refused{"recursion"};
    Frame* inner = host_.bind(function, given);
    open_.push_back(inner);
    made_->depth = std::max(made_->depth, static_cast<int>(open_.size()) - 1);
    const auto params = static_cast<size_t>(function.positional + function.keyword_only);
    Raw* const regs = inner->registers;
    for (size_t r = 0; r < params; ++r) {
        if (is_live(regs[r])) continue;
        const Raw known = told(regs[r]);  // default values are constants
        known.hold();
        std::exchange(regs[r], known).drop();
    }
    size_t more = params;
    if (function.has_args) own(Thing::borrow(regs[more++]));
    if (function.has_kwargs) own(Thing::borrow(regs[more]));
    inner->caller = frame;
    return inner;
}

Host::Frame* TraceHost::call(Frame* frame, const FlatInstr& i, const Raw* args, Raw& result) {
    if (--budget_ < 0) throw Refused{"it is long"};
    const std::vector<std::string>* names =
        i.names < 0 ? nullptr : &frame->function->names[static_cast<size_t>(i.names)];
    const auto words = names ? static_cast<int64_t>(names->size()) : 0;
    const Raw callee = use(args[0]);
    Thing made;
    Frame* inner = nullptr;
    if (i.verb == Verb::Method) {
        const std::string& name = frame->function->names[static_cast<size_t>(i.attr)][0];
        made = call_method(callee, name, {args + 1, i.count - 1 - words, names});
        if (!made) {
            const Thing method = attribute(callee, name);
            inner = call_value(frame, method.get(), {args + 1, i.count - 1 - words, names}, made);
        }
    } else if (i.verb == Verb::Call) {
        inner = call_value(frame, callee, {args + 1, i.count - 1 - words, names}, made);
    } else {
        const Raw all = use_whole(args[1]), by_name = args[2];
        if (!all.is(Kind::Tuple)) throw Refused{"arguments of the caller's"};
        Values flat(items_in(all).begin(), items_in(all).end());
        const auto n = static_cast<int64_t>(flat.size());
        std::vector<std::string> keys;
        if (!by_name.is_none()) {
            if (!by_name.is(Kind::Dict) || !is_own(by_name))
                throw Refused{"arguments of the caller's"};
            for (const Dict::Entry& e : by_name.as<Dict>()->entries) {
                if (!e.key) continue;
                if (!e.key.is(Kind::Text)) throw Refused{"an exception"};
                keys.push_back(text_in(e.key));
                flat.push_back(e.value);
            }
        }
        inner = call_value(frame, callee, {flat.data(), n, keys.empty() ? nullptr : &keys}, made);
    }
    if (!inner) result = made.release();
    return inner;
}

Host::Frame* TraceHost::call_value(Frame* frame, Raw callee, const Given& given, Thing& result) {
    switch (callee.kind()) {
        case Kind::Function:
            return enter_function(frame, *callee.lasting<Function>(), given);
        case Kind::Ops:
            result = call_ops(*callee.lasting<Ops>(), given);
            return nullptr;
        case Kind::Builtin:
            result = call_builtin(*callee.lasting<Builtin>(), given);
            return nullptr;
        case Kind::Type:
            result = construct(*callee.lasting<Type>(), given);
            return nullptr;
        case Kind::Class: {
            Values kept;
            for (int64_t k = 0; k < given.n + given.words(); ++k)
                kept.push_back(use_or_keep(given.args[k]));
            result = own(make_named(*callee.lasting<Class>(), {kept.data(), given.n, given.names}));
            return nullptr;
        }
        case Kind::Method: {  // that was looked up in a tensor before
            const auto* m = callee.as<Method>();
            if (!m->self.is_tensor()) throw Refused{"a method that was looked up"};
            const std::string name(m->ops ? m->ops->name : std::string(m->builtin->name));
            result = call_method(m->self, name, given);
            return nullptr;
        }
        default:
            throw Refused{"a call of an object"};
    }
}

/// A method of a tensor, of a value or of a container; empty: it may be an attribute.
Thing TraceHost::call_method(Raw self, const std::string& name, const Given& given) {
    if (is_live(self)) return {};
    Values all{self};
    auto add = [&](Values&& others) { all.insert(all.end(), others.begin(), others.end()); };
    auto with = [&] { return Given{all.data(), given.n + 1, given.names}; };
    const Builtin* method = method_named(self, name);
    if (self.is_tensor()) {
        if (method && method->to != Comes::Layout && method->to != Comes::Same)
            throw Refused{"a method of a tensor"};
        add(used(given, false));
        if (method) return own_result(run_builtin(host_, *method, with()));
        const Ops* ops = host_.context().package().ops("Tensor." + name);
        if (!ops) return {};
        return own_result(native::call_ops(*ops, with(), nullptr));
    }
    if (!method) return {};
    if (is_value(self)) {
        add(used(given, false));
        return own_result(run_builtin(host_, *method, with()));
    }
    const bool writes = is_among(name, kWriters), searches = is_among(name, kSearchers);
    if (!writes && !searches && !is_among(name, kReaders)) throw Refused{"a method of a container"};
    if (writes) mutate(self);
    else if (!is_own(self) || searches) look_into(self);
    if (writes || searches) {
        for (int64_t k = 0; k < given.n + given.words(); ++k) {
            all.push_back(searches ? use_whole(given.args[k]) : use_or_keep(given.args[k]));
            if (searches) expect_plain(all.back());
        }
    } else {
        add(used(given, true));
    }
    Thing out = run_builtin(host_, *method, with());
    if (out.is(Kind::View) || name == "copy") return own(std::move(out));
    return is_own(self) ? out : Thing::borrow(told(out.get()));
}

TraceHost::Values TraceHost::used(const Given& given, bool holds) {
    Values out;
    for (int64_t k = 0; k < given.n + given.words(); ++k) {
        Raw r = use(given.args[k]);
        if (is_live(r)) {
            if (!live_of(r).actual.is(Kind::Tuple)) throw Refused{"an object of the caller's"};
            const Thing items = items_of(r);  // which own() keeps
            r = items.get();
            for (int64_t j = 0; !holds && j < items_in(r).size; ++j)
                r.as<Tuple>()->items()[j] = Thing::borrow(use(items_in(r)[j])).release();
        }
        if (r.is(Kind::Iterator)) {
            if (!holds || !is_own(r)) throw Refused{"an iterator of the caller's"};
            mark_.is_over = true;
        } else if (!(holds && is_own(r)) && !is_fixed(r)) {
            expect_plain(r);
        }
        out.push_back(r);
    }
    return out;
}

Thing TraceHost::call_ops(const Ops& ops, const Given& given) {
    const Values all = used(given, false);
    return own_result(native::call_ops(ops, {all.data(), given.n, given.names}, nullptr));
}

Thing TraceHost::call_builtin(const Builtin& builtin, const Given& given) {
    if (builtin.name == "isinstance" && given.n == 2 && !given.words())
        return is_instance(given.args[0], use(given.args[1]));
    if (builtin.name == "len" && given.n == 1)
        if (const Raw r = use(given.args[0]); is_live(r) && live_of(r).actual.is(Kind::Tuple))
            return of_int(live_of(r).actual.as<Tuple>()->size);
    const bool makes = is_among(builtin.name, kMakers);
    if (!makes && !is_among(builtin.name, kReckoners) && !builtin.name.starts_with("math."))
        throw Refused{"a function that does something"};
    const Values all = used(given, makes);
    if (builtin.name == "reversed" && all[0].is_tensor()) throw Refused{"a loop over a length"};
    return own_result(run_builtin(host_, builtin, {all.data(), given.n, given.names}));
}

Thing TraceHost::construct(const Type& type, const Given& given) {
    switch (type.kind) {
        case Kind::Int:
        case Kind::Float:
        case Kind::Bool:
        case Kind::Tuple:
        case Kind::List:
        case Kind::Dict:
        case Kind::Range:
        case Kind::Slice:
            break;
        default:
            throw Refused{"a function that does something"};
    }
    const bool holds =
        type.kind == Kind::Tuple || type.kind == Kind::List || type.kind == Kind::Dict;
    const Values all = used(given, holds);
    return own_result(native::construct(host_, type, {all.data(), given.n, given.names}));
}

Thing TraceHost::is_instance(Raw r, Raw kinds) {
    if (is_live(kinds)) throw Refused{"a class of the caller's"};
    Raw of = use_or_keep(r);
    if (is_live(of)) {
        const Raw actual = live_of(of).actual;
        ask(live_of(of), {Condition::Ask::Kind, 0, actual.kind()});
        of = actual;
    }
    return of_bool(native::is_instance(of, kinds));
}

void TraceHost::free(Frame* frame) {
    open_.erase(std::find(open_.begin(), open_.end(), frame));
    Host::free(frame);
}

}  // namespace weft::native
