// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// A row of elements that grows at its end: what gradsync keeps in place of a std::vector, for the sake of how long users' files compile.
///
/// A compiler that does not optimize makes some forty functions of each std::vector<T> and of what stands behind it (allocator traits,
/// iterators, uninitialized copies), and gradsync has such rows of some fifty types: they were half of all the functions in a small
/// program. Of a series it makes about ten, with the same names and the same meaning, in constant expressions too. Iterators are pointers,
/// and a series becomes a std::span of its elements wherever one is asked for.
///
/// What differs: room to grow is made of elements as their default constructor leaves them, so a type must have one, and be assignable
/// where its series grows or shrinks. What is taken away is overwritten by such an element.
///
///     series<hazard> all;
///     all.push_back({.peer = 1, .round = 0});
///     for (const hazard& h : all) …
#pragma once

#include <cstddef>
#include <initializer_list>

namespace gradsync {

template <class T>
class series {
 public:
  using value_type = T;

  constexpr series() = default;
  /// Value-initialized: numbers are 0.
  constexpr explicit series(std::size_t size) : data_(size > 0 ? new T[size]() : nullptr), size_(size), capacity_(size) {}
  constexpr series(std::size_t size, const T& value) : series(size) { copy(&value, 0); }
  constexpr series(std::initializer_list<T> elements) : series(elements.size()) { copy(elements.begin(), 1); }

  constexpr series(const series& other) : series(other.size_) { copy(other.data_, 1); }
  constexpr series(series&& other) noexcept { swap(other); }
  /// In the memory that is there, if that is enough: what is assigned in each step allocates in the first one alone.
  constexpr series& operator=(const series& other) {
    if (other.size_ > capacity_) return *this = series(other);
    resize(other.size_);
    if (data_ != other.data_) copy(other.data_, 1);
    return *this;
  }
  constexpr series& operator=(series&& other) noexcept {
    series taken(static_cast<series&&>(other));
    swap(taken);
    return *this;
  }
  constexpr ~series() { delete[] data_; }

  constexpr std::size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr T* data() { return data_; }
  constexpr const T* data() const { return data_; }
  constexpr T* begin() { return data_; }
  constexpr const T* begin() const { return data_; }
  constexpr T* end() { return data_ + size_; }
  constexpr const T* end() const { return data_ + size_; }
  constexpr T& operator[](std::size_t i) { return data_[i]; }
  constexpr const T& operator[](std::size_t i) const { return data_[i]; }
  constexpr T& front() { return data_[0]; }
  constexpr const T& front() const { return data_[0]; }
  constexpr T& back() { return data_[size_ - 1]; }
  constexpr const T& back() const { return data_[size_ - 1]; }

  /// Amortized constant time. Pointers to elements are good until the next call.
  constexpr void push_back(T element) {
    if (size_ == capacity_) reserve(2 * size_ + 2);
    data_[size_++] = static_cast<T&&>(element);
  }
  constexpr void pop_back() { data_[--size_] = T(); }
  constexpr void clear() { resize(0); }

  constexpr void reserve(std::size_t capacity) {
    if (capacity <= capacity_) return;
    series more(capacity);
    for (std::size_t i = 0; i < size_; ++i) more.data_[i] = static_cast<T&&>(data_[i]);
    more.size_ = size_;
    swap(more);
  }
  /// New elements are value-initialized.
  constexpr void resize(std::size_t size) {
    reserve(size);
    while (size_ > size) pop_back();
    size_ = size;
  }
  constexpr void assign(std::size_t size, const T& value) { *this = series(size, value); }

  friend constexpr bool operator==(const series& a, const series& b) {
    if (a.size_ != b.size_) return false;
    for (std::size_t i = 0; i < a.size_; ++i)
      if (!(a.data_[i] == b.data_[i])) return false;
    return true;
  }

 private:
  // From `from`, whose elements lie `step` apart: 1, or 0 for the same one again and again.
  constexpr void copy(const T* from, std::size_t step) {
    for (std::size_t i = 0; i < size_; ++i) data_[i] = from[i * step];
  }

  constexpr void swap(series& other) noexcept {
    T* const data = data_;
    const std::size_t size = size_, capacity = capacity_;
    data_ = other.data_, size_ = other.size_, capacity_ = other.capacity_;
    other.data_ = data, other.size_ = size, other.capacity_ = capacity;
  }

  T* data_ = nullptr;
  std::size_t size_ = 0, capacity_ = 0;
};

/// The elements of a series, or of whatever else has data() and size(), to be read: a std::span<const T> without the iterator concepts,
/// which a compiler works through for each T and each container anew, longer than for a std::vector.
template <class T>
class series_view {
 public:
  using value_type = T;

  constexpr series_view() = default;
  constexpr series_view(const T* data, std::size_t size) : data_(data), size_(size) {}
  template <std::size_t Size>
  constexpr series_view(const T (&elements)[Size]) : data_(elements), size_(Size) {}
  /// The container must live as long as this.
  template <class Container>
  constexpr series_view(const Container& all) requires requires {
    static_cast<const T*>(all.data());
    static_cast<std::size_t>(all.size());
  } : data_(all.data()), size_(all.size()) {
  }

  constexpr std::size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr const T* data() const { return data_; }
  constexpr const T* begin() const { return data_; }
  constexpr const T* end() const { return data_ + size_; }
  constexpr const T& operator[](std::size_t i) const { return data_[i]; }
  constexpr const T& front() const { return data_[0]; }
  constexpr const T& back() const { return data_[size_ - 1]; }
  constexpr series_view first(std::size_t count) const { return {data_, count}; }
  constexpr series_view subspan(std::size_t from) const { return {data_ + from, size_ - from}; }
  constexpr series_view subspan(std::size_t from, std::size_t count) const { return {data_ + from, count}; }

 private:
  const T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace gradsync
