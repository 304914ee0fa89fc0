"""What is broken on purpose in the memory of arrays that grow (see ../../mutate.py)."""

# (suite, file, [(what is broken, text, its replacement)])
MUTANTS = [
    ('arrays', 'base/array_pool.h', [
        ('a class is too small', 'return bytes <= room_of(full - 1) ? full - 1 : full;', 'return full - 1;'),
        ('the content stays behind', '    std::memcpy(grown, array, old_bytes);\n', ''),
        ('what is outgrown is not given back', '    give(array, old_bytes);\n', ''),
        ('an array that is taken is free still', '    free_[c] = array->next;\n', ''),
        ('what is given back is lost', '    else push(array, class_of(bytes));\n', ''),
        ('arrays overlap', '    next_ += room;\n', '    next_ += room / 2;\n'),
        ('arrays reach beyond their chunk', 'if (end_ - next_ < static_cast<std::ptrdiff_t>(room)) begin_chunk(room);', 'if (end_ - next_ <= 0) begin_chunk(room);'),
        ('rests are lost', 'next_ += room_of(c)) push(next_, c);', 'next_ += room_of(c)) {}'),
        ('every array moves', '    if (bytes <= kLargest && class_of(bytes) == class_of(old_bytes)) return array;\n', ''),
    ]),
]
