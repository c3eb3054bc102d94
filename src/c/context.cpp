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
        *json, [this](const std::string& name) { return file->find(name) != nullptr; },
        [](const std::string&) { return false; });
    for (const auto& [name, function] : package->entries())
        if (name == "forward") forward = &package->entry(name);
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
        if (core.returned_.load(std::memory_order_relaxed))
            core.out_ -= free_all(core.returned_.exchange(nullptr, std::memory_order_acquire));
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
    returned_ = nullptr;  // closed
    Running now(*this);
    free_all(late_.load(std::memory_order_acquire));
    given_.free();
    context_.reset();
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
            const native::Function* function = program_->forward;
            if (entry || !function) function = &program_->package->entry(entry ? entry : "forward");
            const native::Given given = given_.take(args, count, named, program_->keeps_state);
            to_value(context_->call(*function, given), *this, result);
        } catch (...) {
            failed = 1;
            tell(error);
        }
        given_.let_go();
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

void Core::take_back(Lent* lent) noexcept {
    const auto push = [lent](std::atomic<Lent*>& to, Lent* closed) {
        lent->next = to.load(std::memory_order_acquire);
        while (lent->next != closed)
            if (to.compare_exchange_weak(lent->next, lent, std::memory_order_release,
                                         std::memory_order_acquire))
                return true;
        return false;
    };
    if (push(returned_, closed())) return;  // it may be gone now
    push(late_, closed());
    if (late_out_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

int64_t Core::free_all(Lent* list) {
    int64_t count = 0;
    for (; list; ++count) delete std::exchange(list, list->next);
    return count;
}

void Core::let_go() noexcept {
    late_out_.store(out_ + 1, std::memory_order_relaxed);  // 1: who holds the handle
    Lent* const list = returned_.exchange(closed(), std::memory_order_acq_rel);
    int64_t back = 1;
    {
        const Heap::Use now(heap_);
        back += free_all(list);
    }
    if (late_out_.fetch_sub(back, std::memory_order_acq_rel) == back) delete this;
}

}  // namespace weft::c
