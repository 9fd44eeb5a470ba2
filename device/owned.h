#pragma once

namespace etna {

/// std::unique_ptr, known by what only it has.
template <typename T>
concept OwningPointer = requires(T& pointer) {
  pointer.release();
};

/// A pointer that owns what it points to, as std::unique_ptr does. Classes hide their members behind one, since each
/// type that std::unique_ptr is made for takes a compiler ten milliseconds, in every file that includes the class.
template <typename T>
class Owned {
 public:
  Owned() = default;
  Owned(decltype(nullptr)) {}
  explicit Owned(T* object) : object_(object) {}
  template <OwningPointer Pointer>
  Owned(Pointer pointer) : object_(pointer.release()) {}
  Owned(Owned&& other) noexcept : object_(other.release()) {}
  Owned& operator=(Owned&& other) noexcept {
    T* next = other.release();  // first: of itself, too
    T* before = object_;
    object_ = next;
    delete before;
    return *this;
  }
  ~Owned() {
    static_assert(sizeof(T) > 0, "the destructor needs the whole type");
    delete object_;
  }

  T* get() const { return object_; }
  T& operator*() const { return *object_; }
  T* operator->() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }
  friend bool operator==(const Owned& a, decltype(nullptr)) { return a.object_ == nullptr; }
  T* release() {
    T* object = object_;
    object_ = nullptr;
    return object;
  }
  void reset() { *this = Owned(); }

 private:
  T* object_ = nullptr;
};

}  // namespace etna
