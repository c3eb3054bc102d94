#include "tensor/format.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <complex>
#include <type_traits>

#include "kernels/convert.h"

namespace weft {
namespace {

/// Characters, not bytes: a suffix may carry the name of a user's class.
int64_t text_width(std::string_view utf8) {
    return std::count_if(utf8.begin(), utf8.end(),
                         [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

/// What follows the last line break.
std::string_view last_line(std::string_view s) { return s.substr(s.rfind('\n') + 1); }

/// The indices of one dim that are shown: [0, head) and [tail, size), "..." between them if `cut`.
struct Shown {
    int64_t head, tail;
    bool cut;

    Shown(int64_t size, bool summarize, int64_t edge)
        : head(size), tail(size), cut(summarize && size - edge > edge) {
        if (!cut) return;
        head = edge;
        tail = size - edge;
    }
};

/// How the elements of one tensor are written: decided from all that are shown, then applied to
/// each. Floating elements are written in one of three ways:
///   whole       `12.`         if every finite element is an integer
///   fixed       `12.3457`     else
///   scientific  `1.2346e+01`  instead of both where digits or space would be lost: the extremes of
///                             the nonzero magnitudes are more than 1e3 apart, above 1e8 or below
///                             1e-4
/// Zeros, infinities and NaNs have no say in this, nor in the width: `tensor([inf, 1.])`.
template <class T>
class ElementFormat {
public:
    explicit ElementFormat(const FormatOptions& options) : options_(options) {
        if constexpr (kFloating) buffer_.resize(kLongestFixed + options.precision);
    }

    /// First pass, once per element: what decides between the ways of writing.
    void observe(T value) {
        if constexpr (kFloating) {
            if (!counts(value)) return;
            double size = std::abs(value);
            smallest_ = seen_ ? std::min(smallest_, size) : size;
            largest_ = seen_ ? std::max(largest_, size) : size;
            seen_ = true;
            whole_ &= size == std::ceil(size);
        }
    }

    void decide() {
        if constexpr (kFloating) {
            if (!seen_) return;
            bool wide = largest_ / smallest_ > 1e3 || largest_ > 1e8 || smallest_ < 1e-4;
            scientific_ = options_.sci_mode < 0 ? wide : options_.sci_mode != 0;
        }
    }

    /// Second pass, once per element, after decide().
    void fit(T value) {
        if (counts(value)) width_ = std::max(width_, std::ssize(write(value)));
    }

    int64_t width() const { return width_; }

    void append(std::string& out, T value) {
        std::string_view s = write(value);
        out.append(std::max<int64_t>(width_ - std::ssize(s), 0), ' ').append(s);
    }

private:
    static constexpr bool kFloating = std::is_floating_point_v<T>;
    /// Sign, 309 digits, point.
    static constexpr size_t kLongestFixed = 311;

    static bool counts(T value) {
        if constexpr (kFloating) return std::isfinite(value) && value != 0;
        return true;
    }

    /// Valid until the next call.
    std::string_view write(T value) {
        if constexpr (std::is_same_v<T, bool>) {
            return value ? "True" : "False";
        } else if constexpr (kFloating) {
            return write_floating(value);
        } else {
            buffer_.resize(std::numeric_limits<T>::digits10 + 2);
            return finish(std::to_chars(buffer_.data(), buffer_.data() + buffer_.size(), value));
        }
    }

    std::string_view write_floating(double value) {
        if (std::isnan(value)) return "nan";
        if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
        char* begin = buffer_.data();
        char* end = begin + buffer_.size();
        if (scientific_) {
            return finish(std::to_chars(begin, end, value, std::chars_format::scientific,
                                        options_.precision));
        }
        if (!whole_) {
            return finish(
                std::to_chars(begin, end, value, std::chars_format::fixed, options_.precision));
        }
        auto result = std::to_chars(begin, end, value, std::chars_format::fixed, 0);
        *result.ptr++ = '.';
        return finish(result);
    }

    std::string_view finish(std::to_chars_result result) const {
        return {buffer_.data(), static_cast<size_t>(result.ptr - buffer_.data())};
    }

    const FormatOptions& options_;
    std::string buffer_;
    double smallest_ = 0, largest_ = 0;
    int64_t width_ = 1;
    bool seen_ = false;
    bool whole_ = true;
    bool scientific_ = false;
};

/// A complex number: its parts are written by formats of their own, `1.+2.j`.
template <class T>
class ElementFormat<std::complex<T>> {
public:
    explicit ElementFormat(const FormatOptions& options) : real_(options), imag_(options) {}

    void observe(std::complex<T> value) {
        real_.observe(value.real());
        imag_.observe(value.imag());
    }
    void decide() {
        real_.decide();
        imag_.decide();
    }
    void fit(std::complex<T> value) {
        real_.fit(value.real());
        imag_.fit(value.imag());
    }
    int64_t width() const { return real_.width() + imag_.width() + 1; }

    void append(std::string& out, std::complex<T> value) {
        real_.append(out, value.real());
        std::string part;
        imag_.append(part, value.imag());
        part.erase(0, part.find_first_not_of(' '));
        if (part[0] != '-') out += '+';
        out.append(part) += 'j';
    }

private:
    ElementFormat<T> real_, imag_;
};

/// What elements of a dtype are shown as: the type that holds all of their kind.
template <class T>
constexpr auto shown_type() {
    if constexpr (kernels::is_complex_v<T>) return std::complex<double>();
    else if constexpr (!std::is_integral_v<T>) return double();
    else if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, uint64_t>) return T();
    else return int64_t();
}
/// Element `i` of a dtype's memory.
template <class Element>
using Reader = Element (*)(const void* data, int64_t i);
template <class T, class Element>
Element read_element(const void* data, int64_t i) {
    return kernels::convert<Element>(static_cast<const T*>(data)[i]);
}

/// Writes the nested brackets of one tensor.
template <class Element>
class BodyWriter {
public:
    BodyWriter(const FormatView& view, Reader<Element> read, const FormatOptions& options,
               std::string& out)
        : read_(read), view_(view), options_(options),
          summarize_(count_elements("print", view.shape) > options.threshold), element_(options),
          out_(out) {}

    void write(int64_t indent) {
        visit(0, 0, [&](Element value) { element_.observe(value); });
        element_.decide();
        visit(0, 0, [&](Element value) { element_.fit(value); });
        write_dim(0, 0, indent);
    }

private:
    size_t rank() const { return view_.shape.size(); }
    Element at(int64_t offset) const { return read_(view_.data, offset); }

    Shown shown(size_t dim) const { return {view_.shape[dim], summarize_, options_.edgeitems}; }

    /// Calls `f` with every element that is shown. Depth is the number of dims.
    template <class F>
    void visit(size_t dim, int64_t offset, const F& f) const {
        if (dim == rank()) return f(at(offset));
        Shown range = shown(dim);
        int64_t stride = view_.strides[dim];
        for (int64_t i = 0; i < range.head; ++i) visit(dim + 1, offset + i * stride, f);
        for (int64_t i = range.tail; i < view_.shape[dim]; ++i) {
            visit(dim + 1, offset + i * stride, f);
        }
    }

    void write_dim(size_t dim, int64_t offset, int64_t indent) {
        if (dim == rank()) return element_.append(out_, at(offset));
        out_ += '[';
        if (dim + 1 == rank()) {
            write_row(offset, indent);
        } else {
            write_slices(dim, offset, indent);
        }
        out_ += ']';
    }

    /// The innermost dim, broken into lines of as many elements as fit; "..." counts as one.
    void write_row(int64_t offset, int64_t indent) {
        int64_t per_line =
            std::max<int64_t>((options_.linewidth - indent) / (element_.width() + 2), 1);
        int64_t written = 0;
        auto separate = [&] {
            if (written && written % per_line == 0) {
                new_line(1, indent);
            } else if (written) {
                out_ += ", ";
            }
            ++written;
        };
        size_t dim = rank() - 1;
        Shown range = shown(dim);
        auto write_range = [&](int64_t from, int64_t to) {
            for (int64_t i = from; i < to; ++i) {
                separate();
                element_.append(out_, at(offset + i * view_.strides[dim]));
            }
        };
        write_range(0, range.head);
        if (range.cut) {
            separate();
            out_ += options_.edgeitems ? " ..." : "...";
        }
        write_range(range.tail, view_.shape[dim]);
    }

    void write_slices(size_t dim, int64_t offset, int64_t indent) {
        bool first = true;
        auto separate = [&] {
            if (!first) new_line(rank() - dim - 1, indent);
            first = false;
        };
        Shown range = shown(dim);
        auto write_range = [&](int64_t from, int64_t to) {
            for (int64_t i = from; i < to; ++i) {
                separate();
                write_dim(dim + 1, offset + i * view_.strides[dim], indent + 1);
            }
        };
        write_range(0, range.head);
        if (range.cut) {
            separate();
            out_ += "...";
        }
        write_range(range.tail, view_.shape[dim]);
    }

    void new_line(size_t breaks, int64_t indent) {
        out_ += ',';
        out_.append(breaks, '\n').append(indent + 1, ' ');
    }

    Reader<Element> read_;
    const FormatView& view_;
    const FormatOptions& options_;
    bool summarize_;
    ElementFormat<Element> element_;
    std::string& out_;
};

/// Each suffix goes on the current line if it fits, else on one of its own.
void append_suffixes(std::string& out, std::span<const std::string> suffixes, int64_t indent,
                     int64_t linewidth) {
    // Two characters more than there are, as PyTorch counts the line of the body.
    int64_t used = text_width(last_line(out)) + 2;
    for (const std::string& suffix : suffixes) {
        int64_t width = text_width(suffix);
        if (used + width + 2 > linewidth) {
            out += ",\n";
            out.append(indent, ' ');
            used = indent + width;
        } else {
            out += ", ";
            used += width + 2;
        }
        out += suffix;
    }
    out += ')';
}

std::string as_tuple(DimSpan dims) {
    std::string out = "(";
    for (size_t i = 0; i < dims.size(); ++i) {
        if (i) out += ", ";
        out += std::to_string(dims[i]);
    }
    return out += dims.size() == 1 ? ",)" : ")";
}

bool is_empty(DimSpan shape) { return std::find(shape.begin(), shape.end(), 0) != shape.end(); }

}  // namespace

FormatOptions& format_options() {
    static FormatOptions options;
    return options;
}

void apply_profile(FormatOptions& options, std::string_view name) {
    FormatOptions profile;
    profile.sci_mode = options.sci_mode;
    if (name == "short") {
        profile.precision = 2;
        profile.edgeitems = 2;
    } else if (name == "full") {
        profile.threshold = FormatOptions::kNoThreshold;
    } else {
        WEFT_EXPECT(name == "default", Value, "set_printoptions",
                    "profile 'default', 'short' or 'full'", text("'", name, "'"));
    }
    options = profile;
}

std::vector<std::string> layout_suffixes(DType dtype, DimSpan shape, DType default_dtype,
                                         std::string_view dtype_module,
                                         const FormatOptions& options) {
    std::vector<std::string> suffixes;
    bool empty = is_empty(shape);
    // Without elements a shape can only be guessed to be (0,).
    bool tells_shape = empty ? shape.size() == 1 : options.edgeitems != 0;
    // `1.` means the default dtype, `1` int64 and `True` bool; `[]` means the default dtype.
    bool tells_dtype =
        dtype == default_dtype || (!empty && (dtype == complex_dtype(default_dtype) ||
                                              dtype == DType::Int64 || dtype == DType::Bool));
    if (!tells_shape) suffixes.push_back("size=" + as_tuple(shape));
    if (!tells_dtype) suffixes.push_back(text("dtype=", dtype_module, name(dtype)));
    return suffixes;
}

std::vector<std::string> unseen_suffixes(DType dtype, DimSpan shape, DType default_dtype) {
    std::vector<std::string> suffixes{"device='meta'", "size=" + as_tuple(shape)};
    if (dtype != default_dtype) suffixes.push_back(text("dtype=torch.", name(dtype)));
    return suffixes;
}

std::string format_tensor(const FormatView& view, std::string_view prefix,
                          std::span<const std::string> suffixes, const FormatOptions& options) {
    WEFT_EXPECT(options.precision >= 0, Value, "print", "a precision of at least 0",
                text(options.precision));
    WEFT_EXPECT(options.edgeitems >= 0, Value, "print", "edgeitems of at least 0",
                text(options.edgeitems));
    std::string out(prefix);
    int64_t indent = text_width(last_line(prefix));
    if (is_empty(view.shape)) {
        out += "[]";
    } else {
        dispatch_each(view.dtype, [&]<class T>() {
            using Element = decltype(shown_type<T>());
            BodyWriter<Element>(view, read_element<T, Element>, options, out).write(indent);
        });
    }
    append_suffixes(out, suffixes, indent, options.linewidth);
    return out;
}

std::string format_unseen(std::string_view prefix, std::span<const std::string> suffixes,
                          const FormatOptions& options) {
    std::string out = text(prefix, "...");
    append_suffixes(out, suffixes, text_width(last_line(prefix)), options.linewidth);
    return out;
}

}  // namespace weft
