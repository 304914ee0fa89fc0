// _dl_find_object() for portable builds on Linux. Such a build links the unwinder of GCC 12 or
// newer, which calls this function of glibc 2.35 to find the unwind tables of code. The definition
// here works with any glibc, and walks the loaded objects.
#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <cstddef>
#include <cstdint>

namespace {

struct Search {
  std::uintptr_t address;
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  std::uintptr_t unwind_table = 0;
};

int visit(dl_phdr_info* object, std::size_t, void* data) {
  auto& search = *static_cast<Search*>(data);
  std::uintptr_t begin = UINTPTR_MAX, end = 0, unwind_table = 0;
  bool contains = false;
  for (int i = 0; i < object->dlpi_phnum; i++) {
    const auto& header = object->dlpi_phdr[i];
    const std::uintptr_t at = object->dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_GNU_EH_FRAME) unwind_table = at;
    if (header.p_type != PT_LOAD) continue;
    if (at < begin) begin = at;
    if (at + header.p_memsz > end) end = at + header.p_memsz;
    if (search.address >= at && search.address < at + header.p_memsz) contains = true;
  }
  if (!contains) return 0;
  search.begin = begin;
  search.end = end;
  search.unwind_table = unwind_table;
  return 1;
}

}  // namespace

/**
 * Like glibc's function: returns 0 and the object that contains `address`, or -1. No object here
 * has DLFO_STRUCT_HAS_EH_DBASE.
 */
extern "C" int _dl_find_object(void* address, dl_find_object* result) noexcept {
  Search search{reinterpret_cast<std::uintptr_t>(address)};
  if (dl_iterate_phdr(visit, &search) == 0 || search.unwind_table == 0) return -1;
  *result = {};
  result->dlfo_map_start = reinterpret_cast<void*>(search.begin);
  result->dlfo_map_end = reinterpret_cast<void*>(search.end);
  result->dlfo_eh_frame = reinterpret_cast<void*>(search.unwind_table);
  return 0;
}
