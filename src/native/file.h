/// Files of safetensors, mapped, with the limits and checks of weft/safetensors.py.
///
/// A file is the length of a JSON header (8 bytes), the header, and the bytes of the tensors, row-major and
/// little-endian. Whatever the header says is checked before a byte is read or allocated for it. A File never
/// changes and may be read by many threads; each `Mapping` of it is one user's: who writes into a tensor writes into
/// a page of his own, and the rest is the one copy that the system keeps of the file.
///
/// Note [Files in use]
/// What was checked is the header; the bytes are read when a program reads them. So a file that is mapped has to stay
/// as it is: replacing it by renaming another one, as weft's own writing does, or removing it changes nothing for who
/// has it; what is written into it shows in tensors, or not; where it is cut, reading what is gone ends the process
/// (SIGBUS), as it does for every program that maps files.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tensor/tensor.h"

namespace weft::native {

class File {
public:
    static constexpr uint64_t kMaxHeader = 100'000'000;

    struct Entry {
        std::string name;
        DType dtype{};
        Dims shape;
        uint64_t begin = 0, end = 0;  ///< bytes, counted from the end of the header
    };

    /// Throws a ValueError if it breaks a rule of the format, a RuntimeError if the system cannot read it.
    explicit File(const std::string& path);
    ~File();
    File(const File&) = delete;

    /// In the order of their bytes.
    const std::vector<Entry>& entries() const { return entries_; }
    const Entry* find(std::string_view name) const;
    /// Texts by key, in the header's order.
    const std::vector<std::pair<std::string, std::string>>& metadata() const { return metadata_; }
    /// A text of the metadata; null if there is none of that key.
    const std::string* metadata(std::string_view key) const;

    /// One mapping of the bytes; the file may go before it, and it before its tensors.
    class Mapping {
    public:
        explicit Mapping(std::shared_ptr<const File> file);
        /// A new tensor over them (a copy, if they are not aligned). Truth values other than 0 and 1 become 1.
        Tensor tensor(const Entry& entry) const;

    private:
        struct Bytes;
        std::shared_ptr<const File> file_;
        std::shared_ptr<Bytes> bytes_;
    };

private:
    void read_header(std::string_view header);
    void add(const std::string& name, const class Json& info);
    void check_places();
    [[noreturn]] void refuse(std::string_view expected, std::string_view got) const;

    std::string path_;
    int descriptor_ = -1;
    uint64_t size_ = 0, start_ = 0;  ///< of the file; where the bytes of tensors begin
    std::vector<Entry> entries_;
    std::unordered_map<std::string_view, size_t> by_name_;
    std::vector<std::pair<std::string, std::string>> metadata_;
};

}  // namespace weft::native
