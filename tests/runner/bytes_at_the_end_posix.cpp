#include <runner/bytes_at_the_end.h>

#include <sys/mman.h>
#include <unistd.h>

namespace etna {

BytesAtTheEnd::BytesAtTheEnd(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  room_ = (bytes + page - 1) / page * page + page;
  start_ = static_cast<std::byte*>(mmap(nullptr, room_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  mprotect(start_ + room_ - page, page, PROT_NONE);
  data_ = start_ + room_ - page - bytes;
}

BytesAtTheEnd::~BytesAtTheEnd() { munmap(start_, room_); }

}  // namespace etna
