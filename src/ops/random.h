/// The process's random numbers. Draws happen under the core lock (Note [One lock] in base/ref.h).
#pragma once
#include <array>
#include <cstddef>
#include <span>

#include <utility>

#include "kernels/random.h"

namespace weft::ops {

/// What a GeneratorScope names; null: the default one.
inline thread_local kernels::Generator* chosen_generator = nullptr;
/// The generator that ops draw from.
kernels::Generator& generator();
kernels::Generator& default_generator();

/// Makes ops of this thread draw from another generator (`generator=` in Python).
class GeneratorScope {
public:
    explicit GeneratorScope(kernels::Generator& generator)
        : before_(std::exchange(chosen_generator, &generator)) {}
    ~GeneratorScope() { chosen_generator = before_; }
    GeneratorScope(const GeneratorScope&) = delete;

private:
    kernels::Generator* before_;
};

/// A seed from the system's randomness, for `seed()`.
uint64_t entropy_seed();

}  // namespace weft::ops
