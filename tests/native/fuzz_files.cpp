/// Files of programs, changed at random: each loads or is refused with an error, and what loads runs or fails.
///
///     fuzz_files COUNT SEED FOLDER FILE...
///
/// Prints how many loaded and ran, and the slowest. FOLDER is for the files that are tried; the last of them stays
/// there when the process dies. A run that takes long is interrupted; memory is limited for all.
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "c/weft.h"

namespace {

using Clock = std::chrono::steady_clock;
std::mt19937_64 random_bits;

size_t below(size_t n) { return n ? random_bits() % n : 0; }
bool one_in(size_t n) { return below(n) == 0; }

std::string read(const char* path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

/// A file in its parts: what is changed in the header changes its length too, or all would fail at once.
struct Parts {
    std::string header, bytes;
    explicit Parts(const std::string& file) {
        uint64_t length = 0;
        std::memcpy(&length, file.data(), 8);
        header = file.substr(8, length);
        bytes = file.substr(8 + length);
    }
    std::string whole() const {
        std::string out(8, '\0');
        const uint64_t length = header.size();
        std::memcpy(out.data(), &length, 8);
        return out + header + bytes;
    }
};

/// Where a number, a word in quotes or a sign begins.
size_t token(const std::string& text) {
    size_t at = below(text.size());
    for (int tries = 0; tries < 64 && at < text.size(); ++tries, ++at)
        if (std::strchr("0123456789\"[]{},:%#@=", text[at])) break;
    return at;
}

/// Where a line of a program ends, from somewhere on; npos: nowhere.
size_t line_end(const std::string& text, size_t from) { return text.find("\\n", from); }

/// A whole line of a program goes, comes twice or moves: whatever it closed, returned or wrote.
void change_lines(std::string& text) {
    const size_t a = line_end(text, below(text.size())), b = line_end(text, a + 2);
    if (a == text.npos || b == text.npos) return;
    const std::string line = text.substr(a, b - a);
    const size_t how = below(4);
    if (how > 0) text.erase(a, b - a);
    if (how == 1) return;
    size_t to = how == 2 ? line_end(text, below(text.size())) : a;
    for (size_t k = how == 2 ? 0 : 1 + below(4); k && to != text.npos; --k)
        to = line_end(text, to + 2);  // a few lines on
    if (to != text.npos) text.insert(to, line);
}

void change_text(std::string& text, const std::string& other) {
    if (one_in(3)) return change_lines(text);
    static const char* const numbers[] = {"0",
                                          "1",
                                          "-1",
                                          "2",
                                          "7",
                                          "63",
                                          "64",
                                          "255",
                                          "1000000",
                                          "2147483647",
                                          "2147483648",
                                          "4294967296",
                                          "9223372036854775807",
                                          "-9223372036854775808",
                                          "9223372036854775808",
                                          "1e400",
                                          "0.5",
                                          "null",
                                          "true"};
    const size_t at = token(text);
    size_t end = at;
    if (one_in(2)) {  // a digit for another: programs that are whole, but not what was written
        const size_t digit = text.find_first_of("0123456789", below(text.size()));
        if (digit != text.npos) text[digit] = static_cast<char>('0' + below(10));
        return;
    }
    if (one_in(20)) {
        text.insert(at, std::string(1 + below(300), "[{\""[below(3)]));
        return;
    }
    switch (below(6)) {
        case 0:  // a number for another
            while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end]))) ++end;
            text.replace(at, end - at, numbers[below(std::size(numbers))]);
            break;
        case 1:  // a part twice
            text.insert(at, text.substr(token(text), 1 + below(80)));
            break;
        case 2:
            text.erase(at, 1 + below(one_in(4) ? 200 : 8));
            break;
        case 3:  // a part of another file, or of this
            text.replace(at, below(60), other.substr(token(other), below(60)));
            break;
        case 4:
            if (!text.empty()) text[below(text.size())] = static_cast<char>(random_bits());
            break;
        case 5:
            if (at < text.size()) text[at] = "0123456789[]{},:\"%#@ \\"[below(22)];
            break;
    }
}

std::string changed(const std::vector<std::string>& files) {
    const std::string& file = files[below(files.size())];
    std::string out = file;
    if (one_in(8)) {  // the file as it lies
        switch (below(4)) {
            case 0:
                return out.substr(0, below(out.size()));
            case 1:
                return out + std::string(below(100), 'x');
            case 2:
                out[below(8)] = static_cast<char>(random_bits());
                return out;
            default:
                out[below(out.size())] ^= static_cast<char>(1 << below(8));
                return out;
        }
    }
    Parts parts(file);
    const std::string other = Parts(files[below(files.size())]).header;
    for (size_t k = one_in(4) ? 1 + below(8) : 1; k; --k) change_text(parts.header, other);
    return parts.whole();
}

struct Watch {
    std::atomic<weft_context*> running{nullptr};
    std::atomic<bool> done{false};
    std::atomic<int64_t> began{0};
    static int64_t now() {
        return std::chrono::duration_cast<std::chrono::milliseconds>(
                   Clock::now().time_since_epoch())
            .count();
    }
    void run() {
        while (!done) {
            usleep(5000);
            if (weft_context* c = running; c && now() - began > 50) weft_interrupt(c);
        }
    }
};

enum class Came { Refused, Loaded, Ran };

/// A call that the entry of the unchanged file understands: one tensor [2, 3].
Came attempt(const char* path, Watch& watch) {
    weft_program* program = nullptr;
    weft_context* context = nullptr;
    weft_error error = {};
    Came came = Came::Refused;
    if (weft_load(path, &program, &error) || weft_context_new(program, &context, &error)) {
        if (!error.kind || !error.message) std::abort();
    } else {
        came = Came::Loaded;
        float data[6] = {1, 2, 3, 4, 5, 6};
        int64_t shape[2] = {2, 3};
        DLTensor x = weft_dense(data, weft_float32(), 2, shape);
        weft_value argument = weft_tensor(&x), result;
        watch.began = Watch::now();
        watch.running = context;
        if (!weft_run(context, nullptr, &argument, 1, nullptr, &result, &error)) came = Came::Ran;
        watch.running = nullptr;
        weft_value_clear(&result);
    }
    weft_error_clear(&error);
    weft_context_free(context);
    weft_program_free(program);
    return came;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 5) return 2;
    const long count = std::atol(argv[1]);
    random_bits.seed(static_cast<uint64_t>(std::atol(argv[2])));
    const std::string path = std::string(argv[3]) + "/changed.weft";
    std::vector<std::string> files;
    for (int k = 4; k < argc; ++k) files.push_back(read(argv[k]));
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    const rlimit most = {rlim_t{2} << 30, rlim_t{2} << 30};
    setrlimit(RLIMIT_AS, &most);
#endif
    Watch watch;
    std::thread watcher(&Watch::run, &watch);
    long came[3] = {};
    int64_t slowest = 0;
    for (long k = 0; k < count; ++k) {
        const std::string file = changed(files);
        std::ofstream(path, std::ios::binary) << file;
        const int64_t before = Watch::now();
        ++came[static_cast<int>(attempt(path.c_str(), watch))];
        slowest = std::max(slowest, Watch::now() - before);
    }
    watch.done = true;
    watcher.join();
    std::printf("%ld files: %ld refused, %ld loaded, %ld ran; the slowest took %lld ms\n", count,
                came[0], came[1], came[2], static_cast<long long>(slowest));
    return 0;
}
