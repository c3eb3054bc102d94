/// A package ready to run on one thread: its constants, objects and tensors.
#pragma once
#include <atomic>
#include <functional>

#include "native/arguments.h"
#include "native/package.h"

namespace weft::native {

class Place;  // stretch.h

class Context {
public:
    /// `lookup` gives each tensor of the package a handle of this context's own.
    Context(std::shared_ptr<const Package> package, FunctionRef<Tensor(const std::string&)> lookup);
    ~Context();
    Context(const Context&) = delete;

    const Package& package() const { return *package_; }
    /// Calls a function with arguments by place, then by name. Throws Raised with the exception that left it; all
    /// values have to be gone before the context is.
    Thing call(const Function& function, const Given& given);

    /// The class of named tuples that is equal to `of`.
    const Class& class_like(const Class& of);

    /// From any thread: what runs ends soon, with a KeyboardInterrupt.
    void interrupt() { interrupted_.store(true, std::memory_order_relaxed); }
    /// How deep functions may call each other.
    int depth_limit = 1000;
    /// Whether what is met again may run as a plan (Note [Stretches] in program/stretch.h); WEFT_COMPILE=0 in the
    /// environment says no.
    bool by_plan;
    /// Asked now and then, may throw.
    std::function<void()> on_pause;
    /// Where print and warnings go.
    std::function<void(std::string_view)> print, warn;
    /// Calls the op of a library (Note [Libraries]); empty where packages have none.
    std::function<Thing(std::string_view name, const Given&)> library;
    /// The attribute of an object of the package; empty: it has none of this name.
    Thing field(size_t object, const std::string& name) const;
    /// Throws a ValueError for an object or attribute that is not there.
    void set_field(size_t object, const std::string& name, const Thing& value);

    /// What begins at a place: for tests and for who asks why a program is slow.
    struct PlaceReport {
        const Function* function;
        int32_t line, end;  ///< `end`: the line before which the last trace ended; 0: none did
        const char* why;
        int64_t stretches, steps, runs;
    };
    std::vector<PlaceReport> places() const;

private:
    friend class Host;
    friend class Place;
    /// What the context keeps of a function.
    struct State {
        program::Code code;  ///< the function's, with places
        std::vector<std::unique_ptr<Place>> places;
        /// Makes a place of an instruction; false: it is one.
        bool add_place(int32_t pc);
        std::vector<Raw> constants;
        std::vector<Raw> defaults;  ///< by parameter; empty: it has none
        std::unique_ptr<std::unique_ptr<Remembered>[]> memory;  ///< by instruction
    };
    Thing make(const Json& constant);
    Thing make_named_constant(const std::string& kind, const Json& value);

    std::shared_ptr<const Package> package_;
    std::vector<State> states_;
    std::vector<Thing> objects_;
    std::map<std::string, Thing> tensors_;
    std::vector<std::unique_ptr<Class>> own_classes_;  ///< that arguments brought
    std::atomic<bool> interrupted_ = false;
};

}  // namespace weft::native
