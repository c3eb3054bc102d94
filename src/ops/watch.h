/// What a watcher hears of: every call that the door carries out, and what goes on round calls.
///
/// Note [Watching]
/// With kWatchMode the door tells the thread's watcher of each call, before it and after it: also of
/// those inside of another (a composite's body), of gradient rules, and of the batches that kept calls
/// became; not of a call that is kept, nor of one that autocast or a mapped level runs as another,
/// which comes by itself. Whoever makes calls on behalf of something that is no call, a module, a
/// node, a pass of backward, opens a `WatchSpan` round them. `scopes.inside` is what is open, of the
/// watcher's own numbers, so each example of a batch has its own.
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

/// Reads what it is given and changes nothing. Does not throw where it is told of an end.
class Watcher {
public:
    virtual void before(const Call& c) = 0;
    virtual void after(Call& c) = 0;
    virtual void failed(const Call& c) = 0;
    /// `object`: what `name` is the name of, opaque; both may be empty.
    virtual void open(SpanKind kind, std::string_view name, const void* object) = 0;
    /// The tensors that went in, and those that came out: of spans that compute by themselves.
    virtual void give(std::span<const Tensor> inputs) = 0;
    virtual void take(std::span<const Tensor> outputs) = 0;
    virtual void close(bool failed) = 0;
    /// The last reference to a storage that bears `seen` has gone.
    virtual void released(const Storage* storage) = 0;

protected:
    ~Watcher() = default;
};

class WatchSpan {
public:
    explicit WatchSpan(SpanKind kind, const void* object = nullptr, std::string_view name = {})
        : watcher_(mode & kWatchMode ? scopes.watcher : nullptr) {
        if (!watcher_) [[likely]]
            return;
        errors_ = std::uncaught_exceptions();
        watcher_->open(kind, name, object);
    }
    ~WatchSpan() {
        if (watcher_) [[unlikely]]
            watcher_->close(std::uncaught_exceptions() > errors_);
    }
    WatchSpan(const WatchSpan&) = delete;
    void give(std::span<const Tensor> inputs) {
        if (watcher_) watcher_->give(inputs);
    }
    void take(std::span<const Tensor> outputs) {
        if (watcher_) watcher_->take(outputs);
    }

private:
    Watcher* watcher_;
    int errors_ = 0;
};

}  // namespace weft::ops
