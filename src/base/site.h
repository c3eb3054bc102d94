/// Provenance: which line of the user's program made a node.
///
/// Note [Sites]
/// A site is (code object, instruction offset) of the innermost frame outside weft, kept opaque
/// here. Taking one costs a few loads; file and line are found only when someone asks. The binding
/// installs the hooks; without them sites are empty.
#pragma once
#include <cstdint>
#include <string>
#include <utility>

namespace weft {

struct SiteHooks {
    /// Returns an owned code object (or null) and sets `offset`.
    void* (*capture)(int32_t* offset) = nullptr;
    void (*release)(void* code) = nullptr;
    void (*keep)(void* code) = nullptr;
    /// "model.py:12, in forward: `y = x * b`"
    std::string (*describe)(void* code, int32_t offset) = nullptr;
    /// "model.py:12, in forward": without looking for the line
    std::string (*place)(void* code, int32_t offset) = nullptr;
    /// Adds a line to the error that is being thrown, if it is not a weft::Error.
    void (*annotate)(const std::string& line) = nullptr;
};
inline SiteHooks site_hooks;

class Site {
public:
    Site() = default;
    static Site here() {
        if (stand_in) [[unlikely]]
            return stand_in->copy();
        return now();
    }
    /// The innermost frame, whoever runs on whose behalf.
    static Site now() {
        Site s;
        if (site_hooks.capture) s.code_ = site_hooks.capture(&s.offset_);
        return s;
    }
    Site(Site&& other) noexcept
        : code_(std::exchange(other.code_, nullptr)), offset_(other.offset_) {}
    Site& operator=(Site&& other) noexcept {
        std::swap(code_, other.code_);
        std::swap(offset_, other.offset_);
        return *this;
    }
    ~Site() {
        if (code_) site_hooks.release(code_);
    }
    Site copy() const {
        Site s;
        if (code_) site_hooks.keep(code_);
        s.code_ = code_;
        s.offset_ = offset_;
        return s;
    }
    /// While it lives, `here()` is `site`: of a call that runs later than it was made.
    class Instead {
    public:
        explicit Instead(const Site& site) : outer_(stand_in) { stand_in = &site; }
        ~Instead() { stand_in = outer_; }
        Instead(const Instead&) = delete;

    private:
        const Site* outer_;
    };
    explicit operator bool() const { return code_ != nullptr; }
    std::string describe() const {
        return code_ ? site_hooks.describe(code_, offset_) : std::string("an unknown line");
    }
    std::string place() const {
        return code_ ? site_hooks.place(code_, offset_) : std::string("an unknown line");
    }
    void* code() const { return code_; }
    int32_t offset() const { return offset_; }

private:
    static inline thread_local const Site* stand_in = nullptr;
    void* code_ = nullptr;
    int32_t offset_ = 0;
};

}  // namespace weft
