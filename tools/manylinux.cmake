# Included by the project where a wheel is made (`make wheel`): the objects are g++'s, as in every build;
# the linker is zig's, which has the symbols of each glibc, so that the extension asks for those of
# WEFT_GLIBC, not of the machine that it was made on. libstdc++ comes along; what that asks of
# newer ones is in manylinux.c. None of its symbols can be seen by other libraries.
if(CMAKE_SYSTEM_PROCESSOR AND PROJECT_NAME STREQUAL "weft")
  enable_language(C)
  foreach(library libstdc++.a libgcc.a)
    execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=${library}
      OUTPUT_VARIABLE path OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
    list(APPEND WEFT_LIBRARIES "${path}")
  endforeach()
  list(JOIN WEFT_LIBRARIES " " WEFT_LIBRARIES)
  file(WRITE "${CMAKE_BINARY_DIR}/exports.map" "{ global: PyInit__C; local: *; };")
  set(WEFT_LINKER "\"${Python_EXECUTABLE}\" -m ziglang cc -target ${CMAKE_SYSTEM_PROCESSOR}-linux-gnu.${WEFT_GLIBC}")
  set(WEFT_OBJECTS "<OBJECTS> \"${CMAKE_CURRENT_LIST_DIR}/manylinux.c\" ${WEFT_LIBRARIES} -lgcc_s")
  set(CMAKE_CXX_CREATE_SHARED_MODULE
    "${WEFT_LINKER} -O2 -fPIC -shared <LINK_FLAGS> -Wl,--version-script=exports.map -o <TARGET> ${WEFT_OBJECTS} <LINK_LIBRARIES>")
endif()
