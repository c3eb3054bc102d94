/// What a watcher hears of: every call that the door carries out, and what goes on round calls.
///
/// Note [Watching]
/// With kWatchMode the door tells the thread's watcher of each call, before it and after it: also of
/// those inside of another (a composite's body), of gradient rules, and of the batches that kept calls
/// became; not of a call that is kept, nor of one that autocast or a mapped level runs as another,
/// which comes by itself. Whoever makes calls on behalf of something that is no call, a module, a
/// node, a pass of backward, opens a `WatchSpan` round them. `scopes.inside` is what is open, of the
/// watcher's own numbers, so each example of a batch has its own; a kept call takes it along to where it
/// runs, as `scopes.origin`.
#pragma once
#include <exception>
#include <span>
#include <string_view>

#include "ops/call.h"
#include "ops/scopes.h"

namespace weft::ops {

enum class SpanKind : uint8_t {
    Call,      ///< of an op, through the door
    Module,    ///< a call of a module: its class, the module
    Function,  ///< of a custom function: its name
    Backward,  ///< a pass of the engine
    Node,      ///< of the graph, in such a pass: the Node
    Step,      ///< an optimizer's
    Flush,     ///< kept calls run in batches
    Named,     ///< by the user
};

/// Reads what it is given and changes nothing; only `after` and `take` throw, what a debugger raises
/// that they have called. What is open is known by the number that `before` or `open` gave: a watcher
/// that has ended meanwhile ignores the end.
class Watcher {
public:
    /// `after` is to see the operands as they were: no call writes its result over one that nobody else
    /// holds.
    bool whole_inputs = false;
    /// A debugger has raised: the exception on its way is no call's own. Whoever handles it lowers this.
    bool raised = false;

    virtual int64_t before(const Call& c) = 0;
    /// The call has ended well: it is closed with that, unless this throws.
    virtual void after(int64_t open, Call& c) = 0;
    /// `object`: what `name` is the name of, opaque; both may be empty.
    virtual int64_t open(SpanKind kind, std::string_view name, const void* object) = 0;
    /// The tensors that went in, and at the end those with what came out: of spans that compute by
    /// themselves.
    virtual void give(int64_t open, std::span<const Tensor> inputs) = 0;
    virtual void take(int64_t open, std::span<const Tensor> inputs,
                      std::span<const Tensor> outputs) = 0;
    virtual void close(int64_t open, bool failed) = 0;
    /// The last reference to a storage that bears `seen` has gone.
    virtual void released(const Storage* storage) = 0;
    /// Whoever has opened something calls it before that, and `drop` when it has closed it: the watcher
    /// lives as long.
    virtual void hold() = 0;
    virtual void drop() = 0;

protected:
    ~Watcher() = default;
};

/// What is told to the thread's watcher, if there is one. The truth is `scopes.watcher`; the bit, which
/// guards of the mode save and restore, says where it is worth looking.
class WatchSpan {
public:
    explicit WatchSpan(SpanKind kind, const void* object = nullptr, std::string_view name = {})
        : watcher_(now()) {
        if (!watcher_) [[likely]]
            return;
        errors_ = std::uncaught_exceptions();
        watcher_->hold();
        open_ = watcher_->open(kind, name, object);
    }
    /// Of a call, ended by `end`, or else failed.
    explicit WatchSpan(const Call& c) : watcher_(now()), failed_(true) {
        if (!watcher_) return;
        watcher_->hold();
        open_ = watcher_->before(c);
    }
    ~WatchSpan() {
        if (!watcher_) [[likely]]
            return;
        watcher_->close(open_, failed_ || std::uncaught_exceptions() > errors_);
        watcher_->drop();
    }
    WatchSpan(const WatchSpan&) = delete;
    void end(Call& c) {
        if (!watcher_) return;
        watcher_->after(open_, c);
        std::exchange(watcher_, nullptr)->drop();
    }
    void give(std::span<const Tensor> inputs) {
        if (watcher_) watcher_->give(open_, inputs);
    }
    void take(std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
        if (watcher_) watcher_->take(open_, inputs, outputs);
    }
    /// Whether somebody hears of it.
    explicit operator bool() const { return watcher_; }
    /// Where no exception of C++ says so.
    void fail() { failed_ = true; }

private:
    static Watcher* now() { return mode & kWatchMode ? scopes.watcher : nullptr; }
    Watcher* watcher_;
    int64_t open_ = -1;
    int errors_ = 0;
    bool failed_ = false;
};

}  // namespace weft::ops
