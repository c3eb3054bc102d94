"use strict";
class Live { constructor() {} }
