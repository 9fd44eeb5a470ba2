#include <etna/device/arguments.h>

namespace etna {

void Arguments::add(const Pointer& p, Access access) {
  // An optional argument that was omitted is a zero that no shader dereferences.
  if (p) addresses_.push_back({static_cast<std::uint32_t>(bytes_.size()), access, p.range});
  number(p.address);
  reaches(p.range, access);
}

void Arguments::reaches(const MemoryRange& range, Access access) {
  if (range.bytes == 0) return;
  if (access != Access::write) reads_.push_back(range);
  if (access != Access::read) writes_.push_back(range);
}

void Arguments::table(const Pointer& at, const Arguments& rows) {
  read(at);
  reads_.append(rows.reads());
  writes_.append(rows.writes());
}

void Arguments::append(const Arguments& other) {
  const auto begin = static_cast<std::uint32_t>(bytes_.size());
  for (Address a : other.addresses_) {
    a.offset += begin;
    addresses_.push_back(a);
  }
  bytes_.append(other.bytes());
  reads_.append(other.reads());
  writes_.append(other.writes());
}

void Arguments::clear() {
  bytes_.clear();
  addresses_.clear();
  reads_.clear();
  writes_.clear();
}

}  // namespace etna
