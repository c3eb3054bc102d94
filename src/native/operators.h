/// What instructions do with values, as CPython does it with its own.
///
/// Integers are of 64 bits: a result beyond them is an OverflowError. All throw (errors.h).
#pragma once
#include "native/errors.h"

namespace weft::native {

/// The operators of program::kBinary.
enum Operator : int32_t {
    Add,
    Sub,
    Mul,
    Div,
    FloorDiv,
    Mod,
    Pow,
    MatMul,
    And,
    Or,
    Xor,
    Lshift,
    Rshift
};
/// By the number of an operator there, in program::kUnary and kCompare.
Thing binary(int32_t op, Raw a, Raw b);
Thing inplace(int32_t op, Raw a, Raw b);
Thing unary(int32_t op, Raw a);
Thing compare(int32_t op, Raw a, Raw b);
/// `binary` of numbers (numbers.cpp); empty if one is none.
Thing number_binary(int32_t op, Raw a, Raw b);
/// -1, 0 or 1; 2: not to be ordered (nan).
int order_of_numbers(Raw a, Raw b);
bool is_number(Raw r);  ///< Bool, Int, Float, Complex
double number_as_double(Raw r);
std::complex<double> number_as_complex(Raw r);
int64_t in_64_bits(__int128 v);  ///< OverflowError where it has more
/// As int() has it: towards zero; throws for what is no integer of 64 bits.
int64_t int_of_double(double v);

bool truth(Raw value);
/// As in lists and dicts: what is one and the same is equal.
bool equal(Raw a, Raw b);
/// Throws for what is no key.
uint64_t hash_of(Raw key);
bool contains(Raw container, Raw item);
/// What `length` has a length of, tensors left out; it can be gone through too.
bool is_sized(Raw value);
int64_t length(Raw value);
/// The item of a tuple or list, held; empty past the end. For walks that compare or show items: where one waits
/// for a tensor other examples run, and may change the list.
Thing item_at(Raw sequence, int64_t k);

/// A new iterator; of an iterator itself.
Thing iterate(Raw value);
bool is_iterable(Raw value);
/// Whether its items can be had, which a tensor without dims has none of: what says in its own words
/// that it wants a sequence asks this.
bool has_items(Raw value);
/// The next value; empty at the end.
Thing next(Iterator& iterator);
/// All of them.
std::vector<Thing> all_of(Raw iterable);
Thing set_of(Raw iterable);
/// Pairs of keys and values into a dict.
void update(Dict& dict, Raw pairs);
/// The keys or items of a view as a set; others as they are.
Thing keys_as_set(Raw value);

Thing get_item(Raw holder, Raw key);
void set_item(Raw holder, Raw key, Raw value);
void del_item(Raw holder, Raw key);
/// An int, or a tensor that stands for one; else TypeError.
int64_t index_of(Raw value, const char* who);
/// Start, step and how many of a slice of `size` items.
struct Span {
    int64_t start, step, count;
};
Span span_of(const Slice& slice, int64_t size);

std::string str_of(Raw value);
std::string repr_of(Raw value);
std::string format_of(Raw value, std::string_view spec);
std::string repr_of_double(double v);
/// `format % values`, but for widths that are values (`*`).
std::string percent_format(const std::string& format, Raw values);
std::string repr_of_text(std::string_view v);
/// With \x, \u and \U for what is not ASCII.
std::string ascii_of(const std::string& text);

}  // namespace weft::native
