/// Reading guide: the constructor reads the header, `add` checks one tensor of it, `check_places` all together;
/// Mapping::tensor makes tensors.
#include "native/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "native/json.h"

namespace weft::native {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the format's bytes are used as they lie");

constexpr std::pair<std::string_view, DType> kNames[] = {
    {"BOOL", DType::Bool},
    {"U8", DType::UInt8},
    {"I8", DType::Int8},
    {"I16", DType::Int16},
    {"U16", DType::UInt16},
    {"I32", DType::Int32},
    {"U32", DType::UInt32},
    {"I64", DType::Int64},
    {"U64", DType::UInt64},
    {"F16", DType::Float16},
    {"BF16", DType::BFloat16},
    {"F32", DType::Float32},
    {"F64", DType::Float64},
    {"C64", DType::Complex64},
    {"F8_E4M3", DType::Float8E4M3FN},
    {"F8_E5M2", DType::Float8E5M2},
    {"F8_E8M0", DType::Float8E8M0FNU},
};

bool format_dtype(std::string_view name, DType& dtype) {
    for (const auto& [known, t] : kNames)
        if (known == name) {
            dtype = t;
            return true;
        }
    return false;
}

/// A count that the format allows: at least 0, below 2^63.
bool is_count(const Json& value) { return value.is(Json::Kind::Int) && value.as_int() >= 0; }

bool are_counts(const Json* value) {
    if (!value || !value->is(Json::Kind::List)) return false;
    return std::all_of(value->list().begin(), value->list().end(), is_count);
}

/// What a message shows of a text of anybody's making.
std::string shown(std::string_view text) {
    return text.size() <= 200 ? std::string(text) : std::string(text.substr(0, 200)) + "…";
}

/// Reads `size` bytes at `at`; fewer if the file ends.
size_t read_at(int descriptor, char* to, size_t size, uint64_t at) {
    size_t done = 0;
    while (done < size) {
        const ssize_t got =
            pread(descriptor, to + done, size - done, static_cast<off_t>(at + done));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        done += static_cast<size_t>(got);
    }
    return done;
}

}  // namespace

void File::refuse(std::string_view expected, std::string_view got) const {
    fail(ErrorKind::Value, "safetensors", expected, shown(got) + " in '" + shown(path_) + "'");
}

File::File(const std::string& path) : path_(path) {
    // Nobody may write to the other end of what is no file, and open() would wait for it.
    descriptor_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat about{};
    if (descriptor_ < 0 || fstat(descriptor_, &about) != 0) {
        const int why = errno;
        if (descriptor_ >= 0) close(descriptor_);
        fail(ErrorKind::Runtime, "safetensors", "a file that can be read",
             std::string(std::strerror(why)) + " for '" + shown(path_) + "'");
    }
    try {
        if (!S_ISREG(about.st_mode)) refuse("a file", "something else");
        size_ = static_cast<uint64_t>(about.st_size);
        uint64_t length = 0;
        if (read_at(descriptor_, reinterpret_cast<char*>(&length), 8, 0) < 8)
            refuse("a header length of 8 bytes", std::to_string(size_) + " bytes");
        const uint64_t most = std::min(kMaxHeader, size_ - 8);
        if (length > most) refuse(text("a header of at most ", most, " bytes"), text(length));
        start_ = 8 + length;
        std::string header(length, '\0');
        if (read_at(descriptor_, header.data(), length, 8) < length)
            refuse(text(length, " bytes of header"), "fewer");
        read_header(header);
    } catch (...) {
        close(descriptor_);
        throw;
    }
}

File::~File() { close(descriptor_); }

void File::read_header(std::string_view header) {
    if (!header.starts_with('{')) refuse("a header that begins with '{'", header.substr(0, 1));
    Json parsed;
    try {
        parsed = Json::parse(header);
    } catch (const weft::Error& error) {
        refuse("a header in JSON", error.what());
    }
    for (const auto& [name, value] : parsed.map()) {
        if (name != "__metadata__") {
            add(name, value);
            continue;
        }
        if (!value.is(Json::Kind::Map)) refuse("metadata from text to text", "something else");
        for (const auto& [key, words] : value.map()) {
            if (!words.is(Json::Kind::Text)) refuse("metadata from text to text", key);
            metadata_.emplace_back(key, words.as_text());
        }
    }
    check_places();
}

void File::add(const std::string& name, const Json& info) {
    const std::string who = "'" + shown(name) + "'";
    if (!info.is(Json::Kind::Map) || info.map().size() != 3)
        refuse("dtype, shape and data_offsets of " + who, "something else");
    const Json *dtype = info.find("dtype"), *shape = info.find("shape"),
               *places = info.find("data_offsets");
    Entry entry;
    entry.name = name;
    if (!dtype || !dtype->is(Json::Kind::Text) || !format_dtype(dtype->as_text(), entry.dtype))
        refuse("a dtype of " + who + " that weft has",
               dtype && dtype->is(Json::Kind::Text) ? dtype->as_text() : "something else");
    if (!are_counts(shape) || shape->list().size() > kMaxDims)
        refuse("a shape of " + who, "something else");
    if (!are_counts(places) || places->list().size() != 2)
        refuse("two offsets of " + who, "something else");
    for (const Json& n : shape->list()) entry.shape.push_back(n.as_int());
    entry.begin = static_cast<uint64_t>(places->list()[0].as_int());
    entry.end = static_cast<uint64_t>(places->list()[1].as_int());
    uint64_t bytes = 0;
    try {
        const int64_t item = item_size(entry.dtype);
        bytes = static_cast<uint64_t>(count_elements("safetensors", entry.shape, item) * item);
    } catch (const weft::Error& error) {
        refuse("a shape of " + who, error.what());
    }
    if (entry.end < entry.begin || entry.end - entry.begin != bytes)
        refuse(text(bytes, " bytes for ", who), text("offsets ", entry.begin, " and ", entry.end));
    entries_.push_back(std::move(entry));
}

/// They lie one after the other and fill the file: so none overlaps, and none is out of it.
void File::check_places() {
    std::stable_sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
        return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    uint64_t at = 0;
    for (size_t k = 0; k < entries_.size(); ++k) {
        const Entry& entry = entries_[k];
        if (entry.begin != at)
            refuse(text("the bytes of '", shown(entry.name), "' from ", at,
                        ", without holes or overlaps"),
                   text(entry.begin));
        at = entry.end;
        by_name_.emplace(entry.name, k);
    }
    if (at != size_ - start_) refuse(text(at, " bytes of tensors"), text(size_ - start_, " bytes"));
}

const File::Entry* File::find(std::string_view name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : &entries_[found->second];
}

const std::string* File::metadata(std::string_view key) const {
    for (const auto& [name, words] : metadata_)
        if (name == key) return &words;
    return nullptr;
}

struct File::Mapping::Bytes {
    char* base = nullptr;
    size_t size = 0;
    Bytes() = default;
    Bytes(const Bytes&) = delete;
    ~Bytes() {
        if (base) munmap(base, size);
    }
};

File::Mapping::Mapping(std::shared_ptr<const File> file)
    : file_(std::move(file)), bytes_(std::make_shared<Bytes>()) {
    void* base = mmap(nullptr, file_->size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE,
                      file_->descriptor_, 0);
    if (base == MAP_FAILED)
        fail(ErrorKind::Runtime, "safetensors", text("room to map ", file_->size_, " bytes"),
             std::strerror(errno));
    bytes_->base = static_cast<char*>(base);
    bytes_->size = file_->size_;
}

Tensor File::Mapping::tensor(const Entry& entry) const {
    const size_t size = entry.end - entry.begin;
    char* const from = bytes_->base + file_->start_ + entry.begin;
    const bool aligned = reinterpret_cast<uintptr_t>(from) % item_size(entry.dtype) == 0;
    Tensor out;
    if (size == 0 || !aligned) {
        out = Tensor::empty(entry.dtype, entry.shape);
        if (size) std::memcpy(out.bytes(), from, size);
    } else {
        auto owner = std::make_unique<std::shared_ptr<Bytes>>(bytes_);
        const auto give_back = [](void* o) { delete static_cast<std::shared_ptr<Bytes>*>(o); };
        Ref<Storage> storage =
            borrow_storage(from, static_cast<int64_t>(size), give_back, owner.get());
        owner.release();
        out = Tensor::from_storage(std::move(storage), from, entry.dtype, entry.shape,
                                   contiguous_strides(entry.shape));
    }
    if (entry.dtype == DType::Bool) {  // only 0 and 1 are truth values in memory
        auto* truths = reinterpret_cast<uint8_t*>(out.bytes());
        for (size_t k = 0; k < size; ++k)
            if (truths[k] > 1) truths[k] = 1;
    }
    return out;
}

}  // namespace weft::native
