/// Checks stream_map against the plain loop, bit for bit, with sentinels around the output.
#include "kernels/stream.h"

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

using namespace weft::kernels;

namespace {

int failures = 0;

struct Blend {
    template <class T>
    T operator()(T x, T y) const {
        return x * T(3) + y / (x + T(7));
    }
};
struct Less {
    template <class T>
    bool operator()(T x, T y) const {
        return x < y;
    }
};

/// Output `shift` elements behind a cache line; the second input is one number if `repeat`.
template <class F, class Out, class In>
void one(int64_t n, int64_t shift, bool repeat, bool in_place) {
    constexpr int64_t room = 64;
    struct alignas(64) Line {
        char bytes[64];
    };
    std::vector<Line> memory[3], plain;
    for (auto& lines : memory) lines.resize((n + shift + 2 * room) * sizeof(double) / 64 + 2);
    for (int k = 1; k < 3; ++k)
        for (int64_t i = 0; i < n; ++i)
            reinterpret_cast<In*>(memory[k].data())[i] = In((i * 7919 + k * 104729) % 1000) / In(9);
    auto* out = reinterpret_cast<Out*>(memory[0].data()) + room + shift;
    if (in_place) std::memcpy(static_cast<void*>(out), memory[1].data(), n * sizeof(Out));
    plain = memory[0];
    auto* want = reinterpret_cast<Out*>(plain.data()) + room + shift;
    const MapLoop loop = map_loop<F, Out, In, In>();
    const F f;
    const int64_t strides[] = {sizeof(Out), sizeof(In), repeat ? int64_t{0} : int64_t{sizeof(In)}};
    const auto run = [&](Out* to, auto&& call) {
        char* p[] = {reinterpret_cast<char*>(to),
                     in_place ? reinterpret_cast<char*>(to) : memory[1].data()->bytes,
                     memory[2].data()->bytes};
        call(p);
    };
    run(want, [&](char** p) { loop(&f, p, strides, n); });
    run(out, [&](char** p) { stream_map(loop, &f, p, strides, 3, sizeof(Out), n); });
    if (std::memcmp(memory[0].data(), plain.data(), plain.size() * 64) == 0) return;
    ++failures;
    std::printf("FAILED n %ld shift %ld repeat %d in place %d item %zu\n", long(n), long(shift),
                repeat, in_place, sizeof(Out));
}

}  // namespace

int main() {
    for (const int64_t n : {0, 1, 63, 127, 128, 255, 256, 257, 1024, 1300, 5000})
        for (const int64_t shift : {0, 1, 16, 64})
            for (const bool repeat : {false, true}) {
                one<Blend, float, float>(n, shift, repeat, false);
                one<Blend, float, float>(n, shift, repeat, true);
                one<Blend, double, double>(n, shift, repeat, false);
                one<Less, bool, float>(n, shift, repeat, false);
            }
    std::printf(failures ? "stream: %d failures\n" : "stream: ok\n", failures);
    return failures != 0;
}
