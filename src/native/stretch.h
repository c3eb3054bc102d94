/// Stretches (Note [Stretches] in program/stretch.h) of programs without Python, and where they begin.
///
/// Note [Read where they are]
/// Nobody guards what lies beside the registers, as it is read like them: an attribute of an object of the package is a
/// source of its own, with conditions where it is a number and an input of the plan where it is a tensor. Constants
/// never change but for the memory of tensors, which are inputs too. So a plan finds what `set_field`, an
/// optimizer or another function of the program has written since.
#pragma once
#include "native/host.h"
#include "program/stretch.h"

namespace weft::native {

/// A value at the start of a stretch.
struct Source {
    int32_t reg = -1;     ///< of the frame; else
    int32_t parent = -1;  ///< a source: a tuple or an object, of which it is an item; else
    const Record* holder = nullptr;  ///< an object of the package
    int32_t item = 0;
    bool operator==(const Source&) const = default;
};

/// What a stretch asks of a value.
struct Condition {
    enum class Ask : uint8_t {
        Tensor,  ///< its layout is the plan's to check
        Equal,   ///< of this type and equal
        Tuple,   ///< of this class, or none, and length
        Kind,    ///< of this kind, and class
        Same,    ///< the tensor of another source, which earlier conditions are about; -1: `value`
    } ask;
    int32_t source;
    Kind kind = Kind::None;
    int64_t length = 0;
    const Class* of = nullptr;
    Thing value{};
};

/// Inputs that are laid out alike: tensors of which something may ask whether two are one, and no two are.
using Distinct = std::vector<int32_t>;

struct Stretch : program::StretchOf<Thing> {
    static constexpr size_t kMost = 64;  ///< in one place: each keeps some memory in each context
    std::vector<Source> sources;
    std::vector<Condition> conditions;
    struct Input {
        int32_t source;  ///< -1: `captured`
        Thing captured{};
    };
    std::vector<Input> inputs;
    std::vector<Distinct> distinct;
    int depth = 0;  ///< how deep the functions that it stands for call each other

    /// Whether it may run: then `tensors` are filled. `differs`: the source of a number that alone is another; else -1.
    bool holds(const Host::Frame* frame, Tensor* tensors, int32_t& differs) const;
    /// Finds `distinct`, of a plan that is made.
    void tell_apart();
    /// Here: it did not run, and nothing has changed.
    program::Onward run(Host::Frame* frame, const Tensor* tensors, Raw& result);
};
using Recipe = Stretch::Recipe;
inline void release(Stretch* stretch) { delete stretch; }

/// Where stretches begin, and those that do.
class Place {
public:
    explicit Place(int32_t pc) : pc_(pc) {}
    program::Onward visit(Host& host, Host::Frame* frame, Raw& result);

    int32_t pc() const { return pc_; }
    const std::vector<Ref<Stretch>>& stretches() const { return stretches_.all(); }
    /// Before which instruction the last trace ended (-1: none did), and why.
    int32_t ended() const { return ended_; }
    const char* why() const { return why_; }

private:
    program::Onward trace(Host& host, Host::Frame* frame, Raw& result);
    program::Onward take_up(Host::Frame* frame, Ref<Stretch> made, Raw& result);
    uint64_t signature_of(const Host::Frame* frame) const;

    const int32_t pc_;
    int32_t ended_ = -1;
    const char* why_ = nullptr;
    program::StretchesOf<Stretch> stretches_;
    /// Whether a stretch asks for a number that varies, which is another now.
    bool varies(const Source& differs);
    std::vector<Source> varying_,
        differed_;  ///< `differed_`: attributes that were another number once
};

/// What is itself and never changes: numbers, texts, None and the like.
bool is_value(Raw r);
/// Functions, types and the like, of which each is one.
bool is_fixed(Raw r);

}  // namespace weft::native
