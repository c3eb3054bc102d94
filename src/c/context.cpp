#include "c/context.h"

#include <algorithm>

#include "base/error.h"
#include "c/errors.h"
#include "ops/call.h"
#include "ops/scopes.h"

namespace weft::c {
namespace {

/// Lists, dicts and objects can be written; tensors too, but no program stores another one in a tensor.
bool may_change(const native::Json& constant) {
    using Kind = native::Json::Kind;
    if (constant.is(Kind::List))
        return std::any_of(constant.list().begin(), constant.list().end(), may_change);
    if (!constant.is(Kind::Map)) return false;
    return std::any_of(constant.map().begin(), constant.map().end(), [](const auto& member) {
        const std::string& kind = member.first;
        return kind == "list" || kind == "dict" || kind == "object" || may_change(member.second);
    });
}

}  // namespace

Program::Program(const std::string& path) : file(std::make_shared<const native::File>(path)) {
    const std::string* json = file->metadata("weft");
    WEFT_EXPECT(json, Value, "weft_load", "a file with a program",
                text("tensors without the metadata 'weft' in '", path, "'"));
    package = native::Package::parse(
        *json, [this](const std::string& name) { return file->find(name) != nullptr; });
    keeps_state = !package->objects().empty();
    for (const native::Function& f : package->functions()) {
        keeps_state |= std::any_of(f.constants.begin(), f.constants.end(), may_change);
        for (const auto& [parameter, value] : f.defaults) keeps_state |= may_change(value);
    }
}

/// While a thread works for a core: it uses the core's heap, and none of the modes and scopes around it.
class Core::Running {
public:
    explicit Running(Core& core)
        : heap_(core.heap_), mode_(std::exchange(mode, 0)),
          scopes_(std::exchange(ops::scopes, ops::Scopes{})) {
        ops::scopes.generator = &core.generator_;
        if (core.returned_.load(std::memory_order_relaxed)) core.empty_returned();
    }
    ~Running() {
        ops::scopes = scopes_;
        mode = mode_;
    }
    Running(const Running&) = delete;

private:
    Heap::Use heap_;
    uint32_t mode_;
    ops::Scopes scopes_;
};

Core::Core(std::shared_ptr<const Program> program) : program_(std::move(program)) {
    Running now(*this);
    const native::File::Mapping mapping(program_->file);
    context_.emplace(program_->package, [&](const std::string& name) {
        return mapping.tensor(*program_->file->find(name));
    });
}

Core::~Core() {
    Running now(*this);
    empty_returned();
    context_.reset();
}

void Core::give(const weft_value* args, size_t count, const weft_value* named) {
    const bool copies = program_->keeps_state;
    for (size_t k = 0; k < count; ++k) given_.push_back(to_thing(args[k], copies));
    if (!named) return;
    WEFT_EXPECT(named->kind == WEFT_DICT, Type, "weft_run", "a dict of named arguments",
                text("a value of kind ", static_cast<int>(named->kind)));
    for (size_t k = 0; k < named->as.list.size; ++k) {
        const weft_value* pair = named->as.list.items + 2 * k;
        WEFT_EXPECT(pair->kind == WEFT_STRING, Type, "weft_run", "names of arguments",
                    text("a key of kind ", static_cast<int>(pair->kind)));
        names_.emplace_back(pair->as.string.data, pair->as.string.size);
        given_.push_back(to_thing(pair[1], copies));
    }
}

int Core::run(const char* entry, const weft_value* args, size_t count, const weft_value* named,
              weft_value& result, weft_error* error) noexcept {
    if (in_use_.exchange(true, std::memory_order_acquire)) {
        fill(error, "RuntimeError",
             "[weft_run] expected a context in which no call runs, got one that another thread "
             "uses. "
             "Hint: a context for each thread");
        return 1;
    }
    int failed = 0;
    {
        Running now(*this);
        try {
            const native::Function& function = program_->package->entry(entry ? entry : "forward");
            give(args, count, named);
            result = to_value(context_->call(function, given_, names_), *this);
        } catch (...) {
            failed = 1;
            tell(error);
        }
        given_.clear();
        names_.clear();
    }
    in_use_.store(false, std::memory_order_release);
    return failed;
}

int Core::seed(uint64_t number, weft_error* error) noexcept {
    if (in_use_.exchange(true, std::memory_order_acquire)) {
        fill(error, "RuntimeError", "[weft_seed] expected a context in which no call runs");
        return 1;
    }
    generator_.manual_seed(number);
    in_use_.store(false, std::memory_order_release);
    return 0;
}

void Core::lend(Lent& lent) {
    lent.core = this;
    holders_.fetch_add(1, std::memory_order_relaxed);
}

void Core::take_back(Lent* lent) noexcept {
    lent->next = returned_.load(std::memory_order_relaxed);
    while (!returned_.compare_exchange_weak(lent->next, lent, std::memory_order_release,
                                            std::memory_order_relaxed)) {
    }
    let_go();
}

void Core::empty_returned() {
    Lent* lent = returned_.exchange(nullptr, std::memory_order_acquire);
    while (lent) delete std::exchange(lent, lent->next);
}

void Core::let_go() noexcept {
    if (holders_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

}  // namespace weft::c
