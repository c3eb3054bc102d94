/// Anomaly mode: nodes remember the stack that made them, and results are searched for nan.
///
/// The stack is text, made by the binding; without one (`host`) it is empty.
#pragma once
#include <memory>
#include <string>

#include "autograd/node.h"

namespace weft {

/// Where a node was made. One made by another node's backward also knows that node's trace.
struct Trace {
    std::string stack;
    std::string induced_by;  ///< name of the node whose backward made this one
    std::shared_ptr<const Trace> parent;
};

namespace anomaly {

/// Provided by the binding.
struct Host {
    /// The stack of the call under way, as text. Does not throw.
    std::string (*stack)() = nullptr;
    /// Issues a warning, also while an error is on its way. Does not throw.
    void (*warn)(const std::string& message) = nullptr;
    /// The tensor with its values, where it has none yet.
    Tensor (*values)(const Tensor& t) = nullptr;
};
inline Host host;

/// Read for every node made; set only by `set`.
inline bool on = false;

void set(bool enabled, bool check_nan);
bool checks_nan();

/// The trace for the node that is being made.
std::shared_ptr<const Trace> trace();
/// Warns with the trace of `node`, whose backward failed, and of those that induced it.
void report(const Node& node);

/// While it lives, nodes made in this thread are made by `node`'s backward.
class Running {
public:
    explicit Running(const Node& node) : outer_(current) { current = &node; }
    ~Running() { current = outer_; }
    Running(const Running&) = delete;
    static inline thread_local const Node* current = nullptr;

private:
    const Node* outer_;
};

}  // namespace anomaly
}  // namespace weft
