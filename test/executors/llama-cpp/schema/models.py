"""Models of Pydantic: prints their schemas, or with texts on standard input which of these are none of theirs."""

import json
import sys
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, Optional, Union
from uuid import UUID

from pydantic import AnyUrl, BaseModel, ConfigDict, Field, SecretStr, TypeAdapter, UrlConstraints


class Color(str, Enum):
    red = 'red'
    blue = 'blue'


class Child(BaseModel):
    name: str = Field(min_length=1, max_length=20)
    age: int = Field(ge=0, le=150)


class Node(BaseModel):
    value: int
    next: Optional['Node'] = None


class Cat(BaseModel):
    kind: Literal['cat']
    lives: int = Field(gt=0, lt=10)


class Dog(BaseModel):
    kind: Literal['dog']
    weight: float = Field(gt=0, le=80.5)


class Closed(BaseModel):
    model_config = ConfigDict(extra='forbid')
    color: Color
    one: Literal['a', 1, True]
    child: Child
    children: list[Child] = Field(min_length=1, max_length=3)
    option: Optional[int] = None


class Times(BaseModel):
    at: datetime
    day: date
    clock: time
    span: timedelta


class Texts(BaseModel):
    id: UUID
    code: str = Field(pattern=r'^[A-Z]{3}-\d{2,4}$')
    link: AnyUrl
    page: Annotated[AnyUrl, UrlConstraints(max_length=2083)]
    secret: SecretStr
    raw: bytes


class Numbers(BaseModel):
    even: int = Field(multiple_of=2)
    part: float = Field(ge=0, lt=1)
    price: Decimal
    rest: Any


class Lists(BaseModel):
    pair: tuple[int, str]
    many: tuple[int, ...]
    colors: set[Color]
    scores: dict[str, float]
    named: dict[Annotated[str, Field(pattern=r'^[a-z]+$')], int]


class Pet(BaseModel):
    pet: Union[Cat, Dog] = Field(discriminator='kind')


MODELS = {model.__name__: model for model in (Closed, Node, Times, Texts, Numbers, Lists, Pet)}

if len(sys.argv) > 1 and sys.argv[1] == 'check':
    for name, text in json.load(sys.stdin):
        try:
            TypeAdapter(MODELS[name]).validate_json(text)
        except ValueError as error:
            print(name, text, error)
else:
    print(json.dumps({name: model.model_json_schema() for name, model in MODELS.items()}, indent=1))
