/// Python frames for programs, made where somebody looks.
#pragma once
#include "python/program.h"

namespace weft::python {

/// A frame that stands for an activation of a program: of `code` (its own, or a comprehension's in it), at
/// `offset`, with the variables as they are now. Null with an error set.
Object frame_of(PyCodeObject* code, int32_t offset, const Frame& of);

/// Whether a callable is known to ask which frames are around it: warnings, logging, inspect, traceback, and
/// functions whose code names what does.
bool looks_at_frames(PyObject* callee);

/// While it lives, who asks for the frames of this thread sees those of `innermost` and its callers too.
class VisibleFrames {
public:
    explicit VisibleFrames(const Frame* innermost);
    ~VisibleFrames();
    VisibleFrames(const VisibleFrames&) = delete;

private:
    void* outer_ = nullptr;
    void* cframe_ = nullptr;
    std::vector<Object> made_;
};

}  // namespace weft::python
