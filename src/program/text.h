/// Functions as text, and back.
///
/// Note [Text]
/// A line for each instruction: results, verb, what it does, operands, where in the bytecode; what follows `;` is
/// for people.
///
///     function params=1 own_cells=0 consts=2 attrs=1 pick
///     registers x "" ""
///     cells
///     {
///         %1 = compare ">" x%0 #0 @6 ; 12
///         if %1 @10 {
///             %2 = method x%0 attr=0 number=12 @14 ; relu 13
///             return %2 @30 ; 13
///         } {
///         }
///         return #1 @32 ; 14
///     }
///
/// `x%0` is register 0, whose name is x; temporaries have none. `#0` is a constant, `attr` and `names` are numbers of
/// names. What constants and names are is not of the text: whoever keeps them keeps them beside it.
#pragma once
#include <functional>

#include "program/function.h"
#include "program/verify.h"

namespace weft::program {

/// What is written behind `;`, if anything.
using Remark = std::function<std::string(const Instruction&)>;

std::string to_text(const Function& function, const Remark& remark = {});
/// What `to_text` wrote; checked as `verify` does. Throws a ValueError with the line that it does not understand.
Function parse(std::string_view text, const Facts& facts = {});

}  // namespace weft::program
