#!/usr/bin/env python3
"""Breaks the native code on purpose, one place at a time, and expects the tests to notice.

Each mutant is a copy of the native sources with one piece of text replaced. The tests of its suite (mutation/suites.py)
are built against the copy one after the other until one is red: it does not end in time, ends with an error, or is
stopped by a sanitizer. A mutant that passes them all has survived, and says that a test is missing.

The mutants of a room are listed beside its tests: <room>/mutants/*.py. Usage: mutate.py [part of a name]...
"""

import glob
import os
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

sys.dont_write_bytecode = True
from mutation.suites import NATIVE, ROOMS, SUITES, patience

HERE = os.path.dirname(os.path.abspath(__file__))
COMPILER = [os.environ.get('CXX', 'g++'), '-std=c++20', '-pthread']


def read(name):
    with open(os.path.join(NATIVE, name), encoding='utf-8') as file:
        return file.read()


def line_of(text, at):
    return text.count('\n', 0, at) + 1


def all_mutants():
    """Yields (name, file, mutated text, tests)."""
    for path in sorted(glob.glob(os.path.join(HERE, '*', 'mutants', '*.py'))):
        listed = runpy.run_path(path)
        for suite, file, mutants in listed['MUTANTS']:
            text = read(file)
            for what, old, new in mutants:
                if old not in text:
                    sys.exit(f'{file}, "{what}": the text to replace is gone: {old!r}')
                yield f'{file}: {what}', file, text.replace(old, new, 1), SUITES[suite]
        for suite, file, pattern in listed.get('PATTERNS', []):
            text = read(file)
            for match in re.finditer(pattern, text):
                name = f'{file}:{line_of(text, match.start())}: without {match.group().strip()}'
                nothing = '' if match.group().startswith('&') else ';'
                yield name, file, text[:match.start()] + nothing + text[match.end():], SUITES[suite]


def verdict(mutant):
    """The test that is red, 'SURVIVED', or what is wrong with the mutant."""
    name, file, text, tests = mutant
    with tempfile.TemporaryDirectory(prefix='blockstep-mutant-') as root:
        for room in ROOMS:
            shutil.copytree(os.path.join(NATIVE, room), os.path.join(root, room))
        with open(os.path.join(root, file), 'w', encoding='utf-8') as out:
            out.write(text)
        for test, options, arguments in tests:
            binary = os.path.join(root, 'mutant')
            build = COMPILER + [f'test/{test}.cc'] + options + ['-o', binary]
            built = subprocess.run(build, cwd=root, capture_output=True, text=True)
            if built.returncode != 0:
                return name, 'DOES NOT COMPILE\n' + built.stderr[:2000]
            environment = dict(os.environ, TSAN_OPTIONS='halt_on_error=1')
            try:
                ran = subprocess.run([binary] + arguments, capture_output=True, timeout=patience(test), env=environment)
            except subprocess.TimeoutExpired:
                return name, test + ' (does not end)'
            if ran.returncode != 0:
                return name, test + (' (data race)' if b'data race' in ran.stderr else '')
    return name, 'SURVIVED'


def main():
    wanted = sys.argv[1:]
    mutants = [m for m in all_mutants() if not wanted or any(part in m[0] for part in wanted)]
    red = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, found in pool.map(verdict, mutants):
            red += found.split()[0] not in ('SURVIVED', 'DOES')
            print(f'{name:<72} {found}', flush=True)
    print(f'{red} passed, {len(mutants) - red} failed')
    sys.exit(0 if red == len(mutants) else 1)


if __name__ == '__main__':
    main()
