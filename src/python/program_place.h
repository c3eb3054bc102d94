/// Where stretches begin.
///
/// Note [Left calls]
/// A function that has run by plan from its beginning to its end has no other place where the machine would gain
/// anything. A call of it for which there is no plan yet, as of a shape that is new, is CPython's.
#pragma once
#include "python/program_stretch.h"

namespace weft::python {

/// Where stretches begin, and those that do.
class Place {
public:
    explicit Place(int32_t pc) : pc_(pc) {}
    program::Onward visit(Frame* frame, PyObject*& result);
    /// Drops the stretches that were made while `reach` was what ran.
    void forget(uint64_t reach);
    /// What they hold, for the collector.
    int traverse(uint64_t reach, visitproc visit, void* arg) const;
    /// For explain: a dict with what begins here, how often it ran, and why it ends where it does.
    Object describe(const Program& program) const;

    static inline bool enabled = true;

private:
    program::Onward trace(Frame* frame, PyObject*& result);
    /// Whether CPython does best what a call asks that has no stretch.
    bool is_left(const Frame* frame) const;
    /// Whether a stretch asks for what varies.
    bool varies(const Stretch& stretch, const Stretch::Differs& differs);
    uint64_t signature_of(const Frame* frame) const;
    bool add_places(Frame* frame) const;
    program::Onward take_up(Frame* frame, Ref<Stretch> made, PyObject*& result);
    void begin_anew();

    static constexpr size_t kMostVarying = 64;

    const int32_t pc_;
    program::StretchesOf<Stretch> stretches_;
    bool sizes_vary_ = false;    ///< in defer mode: then nothing is kept whole
    uint64_t newest_ = 0;        ///< number of the newest Reach that was here
    int32_t ended_ = -1;         ///< before which instruction the last trace ended
    const char* why_ = nullptr;  ///< and why
    std::vector<LiveSource> varying_;
    std::vector<VaryingRead> varying_reads_;
};

/// Makes a place of an instruction; false if it is one.
bool add_place(Program& program, int32_t pc);

}  // namespace weft::python
