// Arrays whose index is checked when built with -DIBNN_CHECKED (a bad index then ends the row with an error code).
#pragma once
#include <cstddef>
#include <new>
#include <stdexcept>
#include <vector>

namespace ibnn {

template <class T> class Array {
 public:
  // Grows only; the contents are not kept. Aligned to 64 bytes for whole-register access.
  void resize(long n) {
    if (n > capacity_) {
      release();
      data_ = static_cast<T*>(::operator new(sizeof(T) * static_cast<size_t>(n + 16), std::align_val_t(64)));
      capacity_ = n;
    }
    size_ = n;
  }
  Array() = default;
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  ~Array() { release(); }
  long size() const { return size_; }
  T* data() { return data_; }
  const T* data() const { return data_; }
  void fill(T x) {
    for (long i = 0; i < size_; ++i) data_[i] = x;
  }
  T& operator[](long i) { return *slot(i, 1); }
  const T& operator[](long i) const { return *const_cast<Array*>(this)->slot(i, 1); }
  // Address of `width` consecutive elements that start at i.
  T* slot(long i, long width) {
#ifdef IBNN_CHECKED
    if (i < 0 || i + width > size_) throw std::out_of_range("ibnn: index outside an array");
#else
    (void)width;
#endif
    return data_ + i;
  }
  const T* slot(long i, long width) const { return const_cast<Array*>(this)->slot(i, width); }

 private:
  void release() {
    if (data_) ::operator delete(data_, std::align_val_t(64));
    data_ = nullptr;
    capacity_ = size_ = 0;
  }
  T* data_ = nullptr;
  long size_ = 0, capacity_ = 0;
};

}  // namespace ibnn
