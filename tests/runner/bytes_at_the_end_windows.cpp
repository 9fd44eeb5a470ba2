#include <runner/bytes_at_the_end.h>

#include <windows.h>

namespace etna {

BytesAtTheEnd::BytesAtTheEnd(std::size_t bytes) {
  SYSTEM_INFO system{};
  ::GetSystemInfo(&system);
  const std::size_t page = system.dwPageSize;
  room_ = (bytes + page - 1) / page * page + page;
  start_ = static_cast<std::byte*>(::VirtualAlloc(nullptr, room_, MEM_RESERVE, PAGE_NOACCESS));
  if (room_ > page) ::VirtualAlloc(start_, room_ - page, MEM_COMMIT, PAGE_READWRITE);
  data_ = start_ + room_ - page - bytes;
}

BytesAtTheEnd::~BytesAtTheEnd() { ::VirtualFree(start_, 0, MEM_RELEASE); }

}  // namespace etna
